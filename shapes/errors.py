"""Errors of shapes, and what an error says beside its message: its code, which is the name of its
class, and where the code is explained. A docstring here says what the error means, and in its
second paragraph what to do; `docs/errors.md` and the command `explain` say the same."""

from __future__ import annotations


class Explained:
    """An error with a note, which Python prints below its message."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        code = type(self).__name__
        self.add_note(f"[{code}] docs/errors.md#{code.lower()}, or: implicit-stepper explain {code}")

    def __str__(self) -> str:
        """Of a warning with the note, which Python prints below errors alone."""
        message = super().__str__()
        return "\n".join([message, *self.__notes__]) if isinstance(self, Warning) else message


class ArgumentError(Explained, ValueError):
    """An argument that is not of the kind, shape or range that is asked for.

    Give what the message asks for; units and shapes are in notation.md."""


class ShapeError(Explained, ValueError):
    """A shape or a formula that cannot be used; each is one of the kinds below.

    See shapes.md."""


class ShapeArgumentError(ShapeError):
    """A size or another argument of a shape that it cannot have.

    Give what the message asks for; shapes.md lists the arguments of each shape."""


class EmptyShapeError(ShapeError):
    """A body without room inside: empty, flat, or too thin for contact to resolve.

    Check the signs, as the body is where every f <= 0, and the sizes."""


class UnboundedShapeError(ShapeError):
    """A body that never ends in some direction, which only half-spaces may.

    Add inequalities that close it."""


class NotConvexError(ShapeError):
    """A body that is not convex, so that closest points are not what the equations say.

    Split it into convex parts, which one body may have many of."""


class NoNormalError(ShapeError):
    """A surface without a normal at some point, where no contact can be stated.

    Write f so that its gradient does not vanish or jump on the surface, and each face by an
    inequality of its own."""


class RedundantPartError(ShapeError):
    """An inequality or a part that bounds nothing, as the others imply it: often a slip of a sign.

    Leave it out, or check where it is."""


class FormulaError(ShapeError):
    """A formula that cannot be read, or is none of a shape: names, functions, length, exponents.

    See shapes.md for a shape of your own, scene-files.md for formulas as text."""


class MomentsError(ShapeError):
    """A volume or an inertia that cannot be found from the shape to the accuracy that is promised.

    Give the body its `mass` and `inertia`."""
