"""Time-steppers that ask for contacts outside of their equations, to compare with."""
