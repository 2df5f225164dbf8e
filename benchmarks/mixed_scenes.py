"""Random scenes of two to eight mixed bodies, each twice: for the library, and as an auditor's
solids.

Each structure (classes of bodies, compounds, floor, incline, corner or bin) can be drawn many
times: sizes from 1e-3 to 100 m, mass ratios to 1e4, friction to mu = 2, isotropic or not, h
sqrt(g/L) from 1e-3 to .3; at rest, dropped, thrown or stacked.
"""

import dataclasses
import itertools

import numpy as np
import solids
from audit import Contact, Plane, Side, World

import implicit_stepper as ist
import shapes

GRAVITY = 9.81
UPRIGHT = (1.0, 0.0, 0.0, 0.0)

# Of each kind, for a size L [m]: the library's shape and the auditor's solid.
TETRAHEDRON = 0.6 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])


def _frustum(L, bottom=0.6, top=0.25, height=0.9):
    bottom, top, height = bottom * L, top * L, height * L
    low = -height / 4 * (bottom**2 + 2 * bottom * top + 3 * top**2) / (bottom**2 + bottom * top + top**2)
    return shapes.Frustum(bottom, top, height), solids.frustum(bottom, top, low, low + height)


def _cone(L):
    return shapes.Cone(0.5 * L, 0.8 * L), _frustum(L, 0.5, 0.05 * 0.5, 0.95 * 0.8)[1]


def _wedge(L):
    long, wide, high = 0.9 * L, 0.6 * L, 0.5 * L
    section = [(-2 / 3 * long, -high / 3), (long / 3, -high / 3), (long / 3, 2 / 3 * high)]
    return shapes.Wedge(long, wide, high), solids.polytope([(x, s * wide / 2, z) for x, z in section for s in (-1, 1)])


def _polytope(corners):
    return shapes.Polytope(vertices=corners), solids.polytope(corners)


KINDS = {
    "sphere": lambda L: (shapes.Sphere(0.5 * L), solids.ellipsoid([0.5 * L] * 3)),
    "ellipsoid": lambda L: (shapes.Ellipsoid((0.7 * L, 0.4 * L, 0.3 * L)), solids.ellipsoid((0.7 * L, 0.4 * L, 0.3 * L))),
    "superquadric 1.5": lambda L: _superquadric(L, 1.5),
    "superquadric 4": lambda L: _superquadric(L, 4.0),
    "superquadric 8": lambda L: _superquadric(L, 8.0),
    "box": lambda L: (shapes.Box((0.5 * L, 0.35 * L, 0.25 * L)), solids.box((0.5 * L, 0.35 * L, 0.25 * L))),
    "cylinder": lambda L: (shapes.Cylinder(0.4 * L, 0.3 * L), solids.frustum(0.4 * L, 0.4 * L, -0.3 * L, 0.3 * L)),
    "capsule": lambda L: (shapes.Capsule(0.25 * L, 0.4 * L), solids.capsule(0.25 * L, 0.4 * L)),
    "frustum": _frustum,
    "tetrahedron": lambda L: _polytope(TETRAHEDRON * L),
    "rounded box": lambda L: (
        shapes.Rounded(shapes.Box((0.45 * L, 0.3 * L, 0.2 * L)), 0.05 * L),
        solids.rounded_box((0.45 * L, 0.3 * L, 0.2 * L), 0.05 * L),
    ),
    "cone": lambda L: _cone(L),
    "lens": lambda L: (shapes.Lens(0.7 * L, 0.7 * L, 0.5 * L), solids.lens(0.7 * L, 0.5 * L)),
    "wedge": lambda L: _wedge(L),
}
# Compound bodies: kinds of their parts, and where they are, in units of L.
COMPOUNDS = {
    "dumbbell": [("sphere", (-0.25, 0, 0)), ("sphere", (0.25, 0, 0))],
    "hammer": [("box", (0, 0, 0.4)), ("capsule", (0, 0, -0.1))],
}
DRAWN = [kind for kind in KINDS if kind not in ("cone", "lens", "wedge")]
PLACES = {"floor": 1, "incline": 1, "corner": 2, "bin": 5}
STARTS = ("rest", "dropped", "thrown", "stacked")


def _superquadric(L, power):
    axes = (0.5 * L, 0.4 * L, 0.35 * L)
    return shapes.Superquadric(axes, epsilon=(2 / power, 2 / power)), solids.superquadric(axes, power)


@dataclasses.dataclass(frozen=True)
class Structure:
    """What compiles anew: kinds of the bodies and the place."""

    kinds: tuple[str, ...]
    place: str


# Structures beside the random ones: kinds that these have not, and eight bodies.
MORE = (
    Structure(("cone", "lens", "wedge"), "floor"),
    Structure(("cone", "sphere", "wedge"), "incline"),
    Structure(("lens", "lens"), "corner"),
    Structure(("capsule", "capsule", "ellipsoid", "ellipsoid", "sphere", "sphere", "sphere", "sphere"), "floor"),
)
RANDOM = 40


def structure(number):
    """Two to eight bodies of at most three kinds; in bins and corners fewer, as every pair is
    declared."""
    if number >= RANDOM:
        return MORE[number - RANDOM]
    rng = np.random.default_rng([1, number])
    place = list(PLACES)[number % len(PLACES)]
    most = {"floor": 8, "incline": 6, "corner": 5, "bin": 4}[place]
    count = int(rng.integers(2, most + 1))
    chosen = rng.choice([*DRAWN, *COMPOUNDS], size=min(count, int(rng.integers(1, 4))), replace=False)
    kinds = sorted(str(chosen[i % len(chosen)]) for i in range(count))
    if count > 4 and any(kind in COMPOUNDS for kind in kinds):
        kinds = kinds[:4]
    return Structure(tuple(kinds), place)


def _parts(kind, L):
    """[(shape, solid, position)] of a body of a kind."""
    if kind in KINDS:
        return [(*KINDS[kind](L), np.zeros(3))]
    return [(*KINDS[own](0.6 * L), L * np.array(at)) for own, at in COMPOUNDS[kind]]


def _planes(place, L):
    up = np.array([0.0, 0.0, 1.0])
    walls = [(np.array([sx, sy, 0.0]), -2.6 * L) for sx, sy in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    if place == "corner":
        return [(up, 0.0), (np.array([0.8, 0.0, 0.6]), -1.5 * L)]
    return [(up, 0.0), *(walls if place == "bin" else [])]


def draw(number, again):
    """The `again`-th scene of a structure: (scene, world for the audit, h, how it starts)."""
    made, rng = structure(number), np.random.default_rng([2, number, again])
    L, start = 10 ** rng.uniform(-3, 2), STARTS[(number + again) % len(STARTS)]
    h = 10 ** rng.uniform(-3, np.log10(0.3)) * np.sqrt(L / GRAVITY)
    tilt = rng.uniform(0.1, 0.5) if made.place == "incline" else 0.0
    gravity = GRAVITY * np.array([np.sin(tilt), 0.0, -np.cos(tilt)])
    scene = ist.Scene(gravity=gravity)
    bodies = [_parts(kind, L) for kind in made.kinds]
    mass = 1000.0 * L**3 * 10 ** rng.uniform(-2, 2, len(bodies))
    inertia = mass[:, None] * L**2 * rng.uniform(0.1, 0.16, (len(bodies), 3))
    poses = _poses(rng, start, bodies, L, h)
    handles = []
    for i, (parts, (position, quaternion, velocity)) in enumerate(zip(bodies, poses, strict=True)):
        own = [(shape, (at, UPRIGHT)) for shape, _, at in parts]
        handle = scene.add_body(
            name=f"{made.kinds[i]} {i}",
            shapes=own,
            mass=mass[i],
            inertia=inertia[i],
            position=position,
            quaternion=quaternion,
            velocity=velocity,
        )
        handles.append(handle)
    contacts = []
    sides = [[Side(i, solid, at) for _, solid, at in parts] for i, parts in enumerate(bodies)]
    for k, (normal, offset) in enumerate(_planes(made.place, L)):
        handle = scene.add_fixed(name=f"plane {k}", shape=shapes.HalfSpace(normal=normal, offset=offset))
        for own, side in zip(handles, sides, strict=True):
            law = _friction(rng, L)
            scene.add_contact(handle, own, friction=law)
            contacts += [_contact(Side(None, Plane(normal, offset)), one, law) for one in side]
    for i, j in itertools.combinations(range(len(handles)), 2):
        law = _friction(rng, L)
        scene.add_contact(handles[i], handles[j], friction=law)
        contacts += [_contact(one, two, law) for one in sides[i] for two in sides[j]]
    length = float(np.max(np.sqrt(np.sum(inertia, axis=1) / mass)))
    return scene, World(mass, inertia, gravity, length, tuple(contacts)), h, start


def _friction(rng, L):
    mu = float(rng.choice([0.0, 0.1, 0.3, 0.6, 1.0, 2.0]))
    e_t, e_o = (1.0, 1.0) if rng.uniform() < 0.7 else (1.0, float(rng.uniform(0.3, 1.0)))
    e_r = float(rng.choice([0.0, 0.05 * L, 0.3 * L]))
    return ist.FrictionEllipsoid(mu=mu, e_t=e_t, e_o=e_o, e_r=e_r, direction=None if e_t == e_o else (0.36, 0.48, 0.8))


def _contact(first, second, law):
    return Contact(first, second, law.mu, np.array([law.e_t, law.e_o, law.e_r]), law.direction)


def _poses(rng, start, bodies, L, h):
    """(position, quaternion, velocity) of every body: none overlap, and what flies arrives within
    the run."""
    radii = [max(np.linalg.norm(at) + solid.radius for _, solid, at in parts) for parts in bodies]
    down, up, speed = np.array([0, 0, -1.0]), np.array([0, 0, 1.0]), np.sqrt(GRAVITY * L)
    below = [max(solid.support(down) + at @ down for _, solid, at in parts) for parts in bodies]
    above = [max(solid.support(up) + at @ up for _, solid, at in parts) for parts in bodies]
    grid, poses, top = 2.2 * max(radii), [], 0.0
    for i in range(len(bodies)):
        place = np.array([grid * (i % 2 - 0.5), grid * (i // 2 % 2 - 0.5), 0.0])
        layer, quaternion, velocity = i // 4, np.array(UPRIGHT), np.zeros(6)
        if start == "stacked":
            place = np.array([0.02 * L * (i % 2), 0.0, top + below[i]])
            top += below[i] + above[i]
        elif start == "rest" and layer == 0:
            place[2] = below[i]
        else:
            quaternion = rng.normal(size=4)
            quaternion /= np.linalg.norm(quaternion)
            fall = 0.5 * GRAVITY * (rng.uniform(5, 40) * h) ** 2
            if start == "thrown":
                velocity[:3] = speed * rng.uniform(0, 2) * rng.normal(size=3)
                velocity[2] = -abs(velocity[2])
                velocity[3:] = speed / L * rng.uniform(0, 4) * rng.normal(size=3)
                fall += abs(velocity[2]) * 20 * h
            place[2] = max(radii) + min(fall, 3 * L) + (grid + min(fall, L)) * layer
            if layer:  # above what begins below it, however high
                place[2] = max(place[2], poses[i - 4][0][2] + 2.05 * max(radii))
        poses.append((place, quaternion, velocity))
    return poses
