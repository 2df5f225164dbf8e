"""The pictures and films of docs/gallery.md: what the examples draw and simulate when they are run,
small enough to be kept.

    python benchmarks/gallery.py                   all examples, in eight CPU minutes
    python benchmarks/gallery.py lens bowling      these

A picture is what an example draws, else its bodies at four times. A film shows the run of an
example, else that of its scene file, in at most five seconds.
"""

import argparse
import os
import runpy
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from PIL import Image, ImageSequence

import implicit_stepper as ist
from implicit_stepper.output import drawing

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures" / "gallery"
WIDEST, COLOURS = 560, 96  # of pictures
LONGEST, SHORTEST = 5.0, 2.0  # [s], of films
FPS, SIZE, SHADES = 12, (3.8, 2.85), 40  # [1/s], [inch], colours of films
WHITE = 240  # of 255: what averages make of the background is lighter, floors are darker
# the body without which a film would be mostly floor
FOLLOWED = {"bowling": "ball", "aimed_throw": "ball"}
STILL = ("complementarity_problem",)  # has no bodies


def main() -> None:
    """Draws what is asked for."""
    known = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="examples, without .py; all by default")
    names = parser.parse_args().names or known
    if wrong := [name for name in names if name not in known]:
        parser.error(f"no example {', '.join(wrong)}: there are {', '.join(known)}")
    FIGURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in names:
            begun = time.process_time()
            found = runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
            run = None if name in STILL else run_of(name, found)
            made = [picture(name, run)] + ([] if run is None else [film(name, run)])
            sizes = ", ".join(f"{file.name} {file.stat().st_size // 1000} kB" for file in made)
            print(f"{name}: {sizes}; {time.process_time() - begun:.1f} CPU s", flush=True)


def run_of(name: str, found: dict) -> ist.Trajectory:
    """What the film of an example shows."""
    if name == "parts_feeding":  # the first of its thousand drops
        starts = found["drops_of"](np.random.default_rng(found["SEED"]), 1)
        first = jax.tree.map(lambda of_all: of_all[0], starts)
        return ist.simulate(found["scene"](), ist.GeometricallyImplicit(), h=0.005, duration=0.75, start=first)
    if "trajectories" in found:
        return list(found["trajectories"].values())[-1]
    if "trajectory" in found:
        return found["trajectory"]
    return ist.run_scene(ist.load_scene(ROOT / "examples" / "scenes" / f"{name}.toml"))


def picture(name: str, run: ist.Trajectory) -> Path:
    """What the example has drawn, or bodies at four times, in few colours."""
    if not Path(f"{name}.png").exists():
        steps = np.searchsorted(run.time, np.linspace(run.time[0], run.time[-1], 4)).tolist()
        drawing.poses(run.scene(), run, steps=steps).savefig(f"{name}.png", dpi=130)
    with Image.open(f"{name}.png") as drawn:
        drawn.thumbnail((WIDEST, WIDEST))
        small = drawn.convert("RGB").quantize(COLOURS)
    small.save(FIGURES / f"{name}.png", optimize=True)
    return FIGURES / f"{name}.png"


def film(name: str, run: ist.Trajectory) -> Path:
    """A film of at most `LONGEST` seconds and at least `SHORTEST`, in real time if it can be."""
    lasts = float(run.time[-1] - run.time[0])
    speed = lasts / np.clip(lasts, SHORTEST, LONGEST)
    run.plot.animation(f"{name}.gif", speed=speed, fps=FPS, size=SIZE, follow=FOLLOWED.get(name))
    return smaller(Path(f"{name}.gif"), FIGURES / f"{name}.gif")


def smaller(drawn: Path, file: Path) -> Path:
    """Saves a film to `file` in few colours, which all of its pictures share, on white."""
    with Image.open(drawn) as frames:
        pictures = [one.convert("RGB") for one in ImageSequence.Iterator(frames)]
    some = pictures[:: max(1, len(pictures) // 4)]
    sheet = Image.new("RGB", (some[0].width, sum(one.height for one in some)))
    for place, one in enumerate(some):
        sheet.paste(one, (0, place * one.height))
    palette = sheet.quantize(SHADES)
    palette.putpalette([255 if shade > WHITE else shade for shade in palette.getpalette()])
    first, *others = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures]
    first.save(file, save_all=True, append_images=others, duration=round(1000 / FPS), loop=0, optimize=True)
    return file


if __name__ == "__main__":
    main()
