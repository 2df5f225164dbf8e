"""Plots and pictures. They need matplotlib."""
