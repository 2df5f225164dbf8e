"""The command `implicit-stepper`."""
