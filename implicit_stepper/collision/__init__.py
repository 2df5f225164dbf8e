"""Closest points of two bodies at given poses."""
