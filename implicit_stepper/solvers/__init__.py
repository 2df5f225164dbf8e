"""Solvers that know no bodies: complementarity, Newton's method, linear systems, cones."""
