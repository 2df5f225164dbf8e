"""What a run asks of its process: compiled programs, threads, progress and files."""
