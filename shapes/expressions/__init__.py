"""Expressions of shapes: which sympy expressions are legal, and their compiled derivatives."""
