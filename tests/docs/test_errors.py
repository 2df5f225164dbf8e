"""The page of errors is complete."""

from pathlib import Path

import implicit_stepper as ist
import shapes

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")


def test_every_public_error_and_every_result_is_on_the_page():
    found = [
        value for name in ist.__all__ if isinstance(value := getattr(ist, name), type) and issubclass(value, BaseException)
    ]
    assert {"StepError", "SceneFileError", "OverlapWarning"} <= {error.__name__ for error in found}
    for error in (*found, shapes.ShapeError):
        base = error.__mro__[1].__name__
        assert f"| `{error.__name__}` | `{base}` |" in PAGE
    assert [result.name for result in ist.Result if f"| `{result.name}` |" not in PAGE] == []
