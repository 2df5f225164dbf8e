"""Radau IIA methods with the whole contact problem at every stage."""
