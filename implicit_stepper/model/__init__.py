"""Bodies, loads and records: the data that every other room works on."""
