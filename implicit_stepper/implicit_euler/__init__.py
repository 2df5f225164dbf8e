"""Implicit Euler with the whole contact problem at the end of the step: Chakraborty et al.
(2007)."""
