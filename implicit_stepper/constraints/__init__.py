"""Contact and its laws: geometry, friction, compliance, and the constraint Jacobian."""
