"""On which face does a part land? Random drops of a prism against its faces' solid angles.

    python examples/parts_feeding.py [--drops 1000]

They are the same every time.
"""

import argparse

import numpy as np

import implicit_stepper as ist
import shapes

HALF_SIZES = np.array([0.02, 0.015, 0.01])  # [m]
PART, TABLE = shapes.Box(HALF_SIZES), shapes.HalfSpace(normal=(0, 0, 1))
SEED = 0
# normal to z, y, x
FACES = ("long, broad (4 x 3 cm)", "long, narrow (4 x 2 cm)", "small (3 x 2 cm)")


def scene():
    """A part 4 cm above a rough table."""
    scene = ist.Scene()
    part = scene.add_body(name="part", shape=PART, density=2700.0, position=(0, 0, 0.04))
    table = scene.add_fixed(name="table", shape=TABLE)
    scene.add_contact(part, table, friction=ist.FrictionEllipsoid(mu=0.4, e_r=0.005))
    return scene


def drops_of(rng, count):
    """First states of `count` parts with random orientations, velocities and spins."""
    position = np.tile([0, 0, 0.04], (count, 1, 1))
    orientation, velocity = np.empty((count, 1, 4)), np.empty((count, 1, 6))
    for i in range(count):
        quaternion = rng.normal(size=4)
        orientation[i, 0] = quaternion / np.linalg.norm(quaternion)
        velocity[i, 0] = np.concatenate([rng.uniform(-0.2, 0.2, 3), rng.uniform(-5, 5, 3)])
    return ist.State(np.zeros(count), position, orientation, velocity)


def solid_angle_shares():
    """Share of all directions that leave the part, from its centre, through each pair of faces."""
    a, b, c = HALF_SIZES
    angle = [4 * np.arctan(p * q / (r * np.sqrt(p * p + q * q + r * r))) for p, q, r in ((a, b, c), (a, c, b), (b, c, a))]
    return 2 * np.array(angle) / (4 * np.pi)


def run(drops, seed=SEED):
    """Faces (drops,) that parts land on, and how upright (drops,) they lie there: 1 is flat."""
    starts = drops_of(np.random.default_rng(seed), drops)
    batch = ist.simulate_batch(scene(), ist.GeometricallyImplicit(), h=0.005, duration=0.75, states=starts)
    assert np.all(batch.result == ist.Result.SOLVED)
    w, x, y, z = batch.end.orientation[:, 0].T
    upright = np.abs([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])
    # the part's axis that is most upright
    return 2 - np.argmax(upright, axis=0), np.max(upright, axis=0)


options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("--drops", type=int, default=1000, help="parts that are dropped")
faces, uprightness = run(options.parse_known_args()[0].drops)
shares = np.bincount(faces, minlength=3) / len(faces)

if __name__ == "__main__":
    error = np.sqrt(shares * (1 - shares) / len(faces))
    print("face down                  share [%]   standard error [%]   solid angle [%]")
    for name, *numbers in zip(FACES, 100 * shares, 100 * error, 100 * solid_angle_shares(), strict=True):
        print(f"{name:25s} " + " ".join(f"{number:{width}.1f}" for number, width in zip(numbers, (10, 20, 17), strict=True)))
    from matplotlib.figure import Figure  # needs matplotlib: pip install matplotlib

    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes, place = figure.subplots(), np.arange(3)
    axes.bar(place - 0.2, 100 * shares, 0.38, yerr=100 * error, capsize=4, color="#0072B2", label=f"{len(faces)} drops")
    axes.bar(place + 0.2, 100 * solid_angle_shares(), 0.38, color="#E69F00", label="solid angle of the face")
    axes.set(xticks=place, xticklabels=FACES, ylabel="share of parts [%]", xlabel="face on the table")
    axes.legend(frameon=False)
    figure.savefig("parts_feeding.png", dpi=130)
