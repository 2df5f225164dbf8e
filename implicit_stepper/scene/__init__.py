"""What a user fills: bodies, contacts and loads, from which the system is built."""
