"""The pictures of docs/gallery.md: what the examples draw when they are run, small enough to be
kept."""

import os
import runpy
import tempfile
from pathlib import Path

from PIL import Image

from implicit_stepper.output import drawing

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures" / "gallery"
WIDEST, COLOURS = 560, 96
# by example: the steps at which bodies are drawn, where the example itself draws nothing
POSES = {"own_shape": [0, 20, 40, 300]}
NAMES = ("gripper", "pole_climber", "rag_doll", "newtons_cradle", "pile", "bowling", "slider_crank", "tumbling_box",
         "toppling_cylinder", "superquadric", "lens", "own_shape", "parts_feeding", "fit_friction",
         "aimed_throw", "farthest_roller")  # fmt: skip


def main() -> None:
    """Draws all of them."""
    FIGURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in NAMES:
            found = runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
            if name in POSES:
                drawing.poses(found["scene"], found["trajectory"], steps=POSES[name]).savefig(f"{name}.png", dpi=130)
            with Image.open(f"{name}.png") as picture:
                picture.thumbnail((WIDEST, WIDEST))
                small = picture.convert("RGB").quantize(COLOURS)
            small.save(FIGURES / f"{name}.png", optimize=True)
            print(f"{name}: {(FIGURES / f'{name}.png').stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
