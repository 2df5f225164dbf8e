"""`python -m implicit_stepper`: the command `implicit-stepper`."""

import sys

from .commands.main import main

if __name__ == "__main__":
    sys.exit(main())
