"""Pages of runs in a browser without a window: their sizes, pictures a second while they play, and
what a picture costs.

    python benchmarks/pages.py --out pages      three bodies for 4 s; 200 balls for 4 s

Needs the extra `browser` and a Chromium. A second is counted from the pictures that the page asked
for and drew in it, so "least" is the poorest second of a whole play.
"""

import argparse
import dataclasses
import os
import shutil
import time
from pathlib import Path

import jax
import numpy as np
from playwright.sync_api import sync_playwright

import implicit_stepper as ist
import shapes

CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# notes when each picture was drawn
NOTES = """
window.drawn = [];
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = draw => ask(now => { window.drawn.push(performance.now()); draw(now); });
"""
TICK = os.sysconf("SC_CLK_TCK")


def three() -> ist.Trajectory:
    """An egg, a box and a cylinder that tumble on a floor and over each other."""
    scene = ist.Scene()
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    bodies = {
        "egg": (shapes.Ellipsoid((0.3, 0.3, 0.4)), (0, 0, 0.7), (1.5, 0, 0, 0, 2, 0)),
        "box": (shapes.Box((0.3, 0.2, 0.2)), (1.2, 0.1, 0.6), (-0.5, 0, 0, 1, 2, 0)),
        "cylinder": (shapes.Cylinder(radius=0.2, half_height=0.35), (2.4, 0, 0.8), (-2, 0, 0, 0, 1, 3)),
    }
    for name, (shape, position, velocity) in bodies.items():
        scene.add_body(name=name, shape=shape, density=500.0, position=position, velocity=velocity)
    scene.add_contacts(friction=0.3)
    return ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=4.0)


def balls() -> ist.Trajectory:
    """200 balls that fall into each other, .2 s of a run twenty times."""
    scene = ist.Scene()
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    rng = np.random.default_rng(0)
    places = np.stack(np.meshgrid(*[np.arange(n) for n in (6, 6, 6)], indexing="ij"), axis=-1).reshape(-1, 3)[:200]
    for i, place in enumerate(0.101 * (2 * places + [0, 0, 1]) + rng.uniform(-4e-4, 4e-4, (200, 3))):
        scene.add_body(name=f"ball {i}", shape=shapes.Sphere(0.1), mass=1.0, position=place)
    scene.add_contacts(friction=0.3)
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.2)
    return repeated(run, 20)


def repeated(run: ist.Trajectory, times: int) -> ist.Trajectory:
    """The steps of `run` this many times, one after another: as large a page as that of a long
    run."""
    nodes = np.append(0, np.tile(np.arange(1, len(run) + 1), times))
    steps = np.maximum(nodes[1:] - 1, 0)
    records = {name: jax.tree.map(lambda a: a[steps], getattr(run, name)) for name in ("contacts", "stats", "certificate")}
    time = run.time[0] + (run.time[-1] - run.time[0]) / len(run) * np.arange(len(nodes))
    moved = {name: getattr(run, name)[nodes] for name in ("position", "orientation", "velocity")}
    return dataclasses.replace(run, time=time, **records, **moved)


def descendants(pid: int) -> list[int]:
    """The processes that `pid` began, and those that these began."""
    children, every = {}, [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    for one in every:
        try:
            parent = int(Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except FileNotFoundError:
            continue
        children.setdefault(parent, []).append(one)
    found = list(children.get(pid, []))
    for one in found:
        found += children.get(one, [])
    return found


def cpu() -> float:
    """CPU seconds of all processes of the browser."""
    spent = 0
    for one in descendants(os.getpid()):
        try:
            spent += sum(map(int, Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        except FileNotFoundError:
            continue
    return spent / TICK


def play(browser, file: Path) -> str:
    """One whole play of a page in words."""
    page = browser.new_page(viewport={"width": 1320, "height": 760})
    page.add_init_script(NOTES)
    page.goto(file.as_uri())
    page.locator("#stage").screenshot(path=file.with_suffix(".png"))
    page.evaluate("drawn.length = 0")
    spent, begun = cpu(), time.perf_counter()
    page.click("#play")
    page.locator("#play", has_text="play").wait_for(timeout=120_000)
    taken, spent = time.perf_counter() - begun, cpu() - spent
    drawn = np.array(page.evaluate("drawn")) / 1e3
    page.close()
    seconds = [np.sum((drawn >= a) & (drawn < a + 1)) for a in np.arange(drawn[0], drawn[-1] - 1, 0.05)]
    return (
        f"{len(drawn) / (drawn[-1] - drawn[0]):.1f} pictures a second, least {min(seconds)}, longest wait "
        f"{1e3 * np.max(np.diff(drawn)):.0f} ms; {1e3 * spent / len(drawn):.1f} CPU ms a picture in all processes, "
        f"{spent / taken:.2f} cores; load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Makes the pages that are not there yet, and plays them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("pages"))
    parser.add_argument("--plays", type=int, default=3)
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    found = next(filter(None, map(shutil.which, CHROMIUM)))
    with sync_playwright() as drivers:
        browser = drivers.chromium.launch(executable_path=found, args=["--no-sandbox", "--headless"])
        for make in (three, balls):
            kept, file = arguments.out / f"{make.__name__}.npz", arguments.out / f"{make.__name__}.html"
            if not kept.exists():
                make().save(kept)
            begun = time.process_time()
            ist.load(kept).plot.page(file)
            print(f"{make.__name__}: {file.stat().st_size / 1e6:.2f} MB, written in {time.process_time() - begun:.1f} CPU s")
            for _ in range(arguments.plays):
                print("  " + play(browser, file), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
