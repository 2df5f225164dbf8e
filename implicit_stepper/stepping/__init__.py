"""What all time-steppers share: the protocol, the loop over steps, and what follows a step that
fails."""
