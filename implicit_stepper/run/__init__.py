"""Whole runs: simulation, trajectories, comparison of steppers."""
