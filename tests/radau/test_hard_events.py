"""Chosen steps where events crowd, jump or have no smooth motion beside them: closed forms, reduced
equations, or a second method to compare with."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import ladder
from implicit_stepper.model.bodies import State
from implicit_stepper.paper import scenes
from implicit_stepper.radau import after_events, euler_steps, folds
from implicit_stepper.runtime.compilation import jit
from implicit_stepper.stepping import fallback, stepper

G = 9.81


def energy(run):
    """Kinetic and of height [J], at every node."""
    return run.kinetic_energy() + G * run.position[:, :, -1] @ run.mass


def on_a_floor(shape, **body):
    """A scene with one body on the plane z = 0, or the line y = 0."""
    friction, planar = body.pop("friction"), shape.dimension == 2
    scene = ist.Scene(dimension=2, gravity=(0.0, -G)) if planar else ist.Scene()
    floor = shapes.HalfPlane(normal=(0, 1)) if planar else shapes.HalfSpace(normal=(0, 0, 1))
    fixed, moving = scene.add_fixed(name="floor", shape=floor), scene.add_body(name="body", shape=shape, **body)
    scene.add_contact(fixed, moving, friction=friction)
    return scene


def test_impacts_that_halve_their_intervals_end():
    """A disc slides down one wall of a wedge, up the other at half the speed, and so on for ever
    within a finite time."""
    slope, up, radius = np.pi / 6, 0.5, 0.1
    scene, bottom = ist.Scene(dimension=2, gravity=(0.0, -G)), np.array([0.0, radius / np.cos(slope)])
    walls = [
        scene.add_fixed(name=name, shape=shapes.HalfPlane(normal=(side * np.sin(slope), np.cos(slope))))
        for name, side in (("left", 1), ("right", -1))
    ]
    start = bottom + up * np.array([-np.cos(slope), np.sin(slope)])
    disc = scene.add_body(name="disc", shape=shapes.Disc(radius), mass=1.0, inertia=0.005, position=start)
    for wall in walls:
        scene.add_contact(wall, disc, friction=0.0)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=1.5)
    # the speed halves at an impact: intervals 1, 1, 1/2, 1/4, ... of this
    first = np.sqrt(2 * up / (G * np.sin(slope)))
    impacts = first * (3 - 2.0 ** (1 - np.arange(8)))
    closes = np.array([event.time for event in run.events if event.kind == "closes"])
    np.testing.assert_allclose(closes[:8], impacts, rtol=0, atol=1e-8)
    assert closes[-1] < 3 * first + 1e-6
    np.testing.assert_allclose(run.position[-1, 0], bottom, atol=1e-8)
    np.testing.assert_allclose(run.velocity[-1], 0.0, atol=1e-8)
    assert np.max(np.diff(energy(run))) < 1e-10


@pytest.mark.parametrize(
    ("fall", "gravity"), [((2.0, 0.0, -1.0, 0.0, 0.0, 0.0), 0.0), ((20.0, 3.0, -1.0, 30.0, -50.0, 200.0), G)]
)
def test_an_oblique_impact_is_landed_on(fall, gravity):
    """However fast the closest points slide past each other before it. Friction acts against the
    slip, mu times the normal impulse as long as the ball does not come to roll."""
    radius, mu, gap, inertia = 0.5, 0.5, 0.05, 0.1
    scene = ist.Scene(gravity=(0.0, 0.0, -gravity))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = shapes.Sphere(radius)
    moving = scene.add_body(
        name="ball", shape=ball, mass=1.0, inertia=np.full(3, inertia), position=(0, 0, radius + gap), velocity=fall
    )
    scene.add_contact(floor, moving, friction=mu)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=0.15)
    velocity, spin = np.array(fall[:3]), np.array(fall[3:])
    hit = np.sqrt(velocity[2] ** 2 + 2 * gravity * gap)
    time = 2 * gap / (hit - velocity[2])
    assert [event[1:] for event in run.events] == [(0, "closes")]
    assert abs(run.events[0].time - time) < 1e-12
    assert (run.counts["impacts"], run.counts["one-stage steps"]) == (1, 0)
    assert len(run) < 10
    arm = np.array([0.0, 0.0, -radius])
    slip = (velocity + np.cross(spin, arm))[:2]
    friction = np.append(-mu * hit * slip / np.linalg.norm(slip), 0.0)
    after = np.concatenate([[*velocity[:2], 0.0] + friction, spin + np.cross(arm, friction) / inertia])
    np.testing.assert_allclose(run.velocity[np.argmin(np.abs(run.time - time)), 0], after, rtol=0, atol=1e-9)


@pytest.mark.thorough
def test_a_rocking_block_follows_housner():
    """Turning about its corners in turn; an impact multiplies the spin by 1 - 1.5 sin^2 of the
    block's slenderness."""
    b, h, tilt = 0.1, 0.5, 0.05
    far, alpha = np.hypot(b, h), np.arctan2(b, h)
    place = far * np.array([np.cos(np.pi / 2 + alpha - tilt), np.sin(np.pi / 2 + alpha - tilt)])
    corners = [(-b, -h), (b, -h), (b, h), (-b, h)]
    scene = on_a_floor(
        shapes.Polygon(corners), mass=1.0, inertia=(b**2 + h**2) / 3, position=place, angle=-tilt, friction=1.0
    )
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=0.9)

    def turning(_, y):
        # y[0] > 0: the angle about the corner on the ground
        return [y[1], -0.75 * G / far * np.sin(alpha - y[0])]

    def flat(_, y):
        return y[0]

    flat.terminal, flat.direction = True, -1
    times, time, y = [], 0.0, [tilt, 0.0]
    while time < 0.9:
        swing = solve_ivp(turning, (0.0, 2.0), y, events=flat, rtol=1e-12, atol=1e-14)
        time += swing.t[-1]
        times.append(time)
        y = [0.0, -swing.y[1, -1] * (1 - 1.5 * np.sin(alpha) ** 2)]
    times = np.array([t for t in times if t < 0.9])
    moves = [event.time for event in run.events if event.kind == "moves"]
    assert len(times) == len(moves) > 1
    # through an impact of a face goes a step of one stage of 1.7e-6 s, or shorter
    np.testing.assert_allclose(moves, times, rtol=0, atol=3e-6)
    assert np.max(np.diff(energy(run))) < 1e-10


def test_sliding_and_spin_die_together():
    """Of a ball: the speed u of its lowest point and its spin w about the normal, with the friction
    ellipsoid's law."""
    mu, e_r, r, spin = 0.3, 0.2, 0.25, 8.0
    start, side = np.array([1.0, 0.5, 0.0]), np.array([2.0, 1.0, 0.0]) / np.sqrt(5)
    scene = on_a_floor(
        shapes.Sphere(r), mass=1.0, inertia=(0.4 * r**2,) * 3, position=(0, 0, r), velocity=(*start, 0, 0, spin),
        friction=ist.FrictionEllipsoid(mu=mu, e_r=e_r),
    )  # fmt: skip
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=0.5)
    u0, slide, turn = np.linalg.norm(start), 3.5 * mu * G, mu * G * e_r**2 / (0.4 * r**2)
    # u' = - slide u / s and w' = - turn w / s with s^2 = u^2 + (e_r w)^2, hence u = u0 (w /
    # spin)^(slide / turn)

    def speed(w):
        return u0 * (w / spin) ** (slide / turn)

    def size(w):
        return np.hypot(speed(w), e_r * w)

    stop = quad(lambda w: size(w) / (turn * w), 0.0, spin, epsabs=1e-13, epsrel=1e-13)[0]
    assert [event.kind for event in run.events] == ["sticks"]
    assert run.events[0].time == pytest.approx(stop, abs=1e-7)
    path = solve_ivp(
        lambda _, y: -np.array([slide * y[0], turn * y[1], -(u0 - (u0 - y[0]) / 3.5) * np.hypot(y[0], e_r * y[1])])
        / np.hypot(y[0], e_r * y[1]),
        (0.0, 0.98 * stop), [u0, spin, 0.0], rtol=1e-12, atol=1e-13, dense_output=True,
    )  # fmt: skip
    time = np.linspace(0.0, 0.98 * stop, 50)
    u, w, way = path.sol(time)
    found = run.at(time)
    np.testing.assert_allclose(found.position[:, 0], way[:, None] * side + (0, 0, r), atol=1e-7)
    np.testing.assert_allclose(found.velocity[:, 0, :3], (u0 - (u0 - u) / 3.5)[:, None] * side, atol=1e-6)
    np.testing.assert_allclose(found.velocity[:, 0, 5], w, atol=1e-5)
    # it rolls
    np.testing.assert_allclose(run.velocity[-1, 0, :3], 2.5 / 3.5 * u0 * side, atol=1e-7)
    assert abs(run.velocity[-1, 0, 5]) < 1e-7


def test_painleves_rod_jams():
    """Where no force keeps a sliding rod on the ground, an impact without collision stops its
    end."""
    half, wide, angle, mu = 0.5, 0.005, np.pi / 4, 2.0
    corners = np.array([(-half, -wide), (half, -wide), (half, wide), (-half, wide)])
    turned = corners @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    low = turned[np.argmin(turned[:, 1])]
    scene = on_a_floor(
        shapes.Polygon(corners), mass=1.0, inertia=half**2 / 3, position=(0, -low[1]), angle=angle, velocity=(-1, 0, 0),
        friction=mu,
    )  # fmt: skip
    normal, along = np.array([0, 1, low[0]]), np.array([1, 0, -low[1]])
    inverse = np.diag([1, 1, 3 / half**2])
    # friction presses the end down more than the force lifts it
    assert normal @ inverse @ (normal + mu * along) < 0
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-6, duration=0.3)
    rows = np.stack([normal, along])
    impulse = -np.linalg.solve(rows @ inverse @ rows.T, rows @ np.array([-1, 0, 0]))
    assert abs(impulse[1]) < mu * impulse[0]  # it sticks
    after = np.array([-1, 0, 0]) + inverse @ rows.T @ impulse
    jammed = np.searchsorted(run.time, 1e-3)
    np.testing.assert_allclose(run.velocity[jammed, 0], after, atol=5 * G * run.time[jammed])
    np.testing.assert_allclose(run.contacts.slip[-1], 0.0, atol=1e-9)
    assert run.events[:2] == ((0.0, 0, "wedges"), (0.0, 0, "jams"))
    assert np.max(np.diff(energy(run))) < 1e-12
    # momentum: gravity and the contact's impulses
    change = np.diff(run.velocity[:, 0, 1])
    np.testing.assert_allclose(run.contacts.normal_impulse[:, 0] - G * np.diff(run.time), change, atol=1e-12)


def box_by_a_table(half, place, height, frictions, **moving):
    """A scene with a box, a table with its top's edge at `place`, and the floor `height` below it:
    one structure, of which programs are compiled once."""
    scene, (x, y, z) = ist.Scene(), place
    table = scene.add_fixed(name="table", shape=shapes.Box((0.5, 0.5, 0.05)), position=(x - 0.5, y, z - 0.05))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)), position=(0, 0, z - height))
    box = scene.add_body(name="box", shape=shapes.Box(half), **moving)
    for fixed, friction in zip((table, floor), frictions, strict=True):
        scene.add_contact(fixed, box, friction=friction)
    return scene


def thrown_box():
    """The box of `examples/tumbling_box.py`, with torsional friction, and a table that is far
    away."""
    return box_by_a_table(
        (0.5, 0.3, 0.2), (-9.0, 0, 0.75), 0.75, (0.3, ist.FrictionEllipsoid(mu=0.5, e_r=0.2)), density=100.0,
        position=(0, 0, 1.0), quaternion=(0.8, 0.36, 0.48, 0.0), velocity=(2.0, 0.5, 0, 1, 6, 0),
    )  # fmt: skip


@pytest.mark.thorough
def test_a_thrown_box_tumbles_and_comes_to_rest():
    coarse, fine = (ist.simulate(thrown_box(), ist.RadauContact(), tol=tol, duration=1.0) for tol in (1e-6, 1e-8))
    for run in (coarse, fine):
        assert np.min(run.contacts.gap) > -1e-10
        assert np.max(np.diff(energy(run))) < 1e-9 * energy(run)[0]
        assert len(run) < 300
        np.testing.assert_allclose(run.velocity[-1], 0.0, atol=1e-6)
    # impacts on edges and faces are of first order: the runs agree less well than 1e-6 after ten of
    # them
    np.testing.assert_allclose(coarse.position[-1], fine.position[-1], atol=1e-4)
    # from the impact on a corner to the next one, the paper's scheme tends to the same path with h.
    # (Of an impact within a step it makes two, with friction in two directions: from the box's
    # start it has no limit.)
    lands, until, errors = fine.events[0].time, 0.38, []
    assert fine.events[0][1:] == (1, "closes")
    before = fine.at(lands - 1e-10)
    start = State(np.array(lands), before.position, before.orientation, before.velocity)
    for h in ((until - lands) / 70, (until - lands) / 700):
        other = ist.simulate(thrown_box(), ist.GeometricallyImplicit(), h=h, duration=until - lands, start=start)
        errors.append(np.max(np.abs(other.position[-1] - fine.at(until).position)))
    assert errors[1] < min(2e-4, 0.12 * errors[0])


@pytest.mark.thorough
def test_a_margin_that_dips_below_zero_and_returns_is_not_landed_on_its_return():
    """A wedge slides on an edge, near whose end the contact point turns back: an end that is passed
    twice within a step."""
    rng = np.random.default_rng([2, 11])
    turn = rng.normal(size=4)
    velocity = np.concatenate([rng.uniform(-2, 2, 3), rng.uniform(-5, 5, 3)])
    wedge, friction = shapes.Wedge(0.6, 0.4, 0.3), ist.FrictionEllipsoid(mu=0.3, e_r=0.05)
    thrown = {"quaternion": turn / np.linalg.norm(turn), "velocity": velocity, "density": 1000.0}
    scene = on_a_floor(wedge, position=(0, 0, 0.8), friction=friction, **thrown)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-5, duration=1.0)
    assert np.min(run.contacts.gap) > -1e-10
    assert np.max(np.diff(energy(run))) < 1e-5 * energy(run)[0]
    assert run.counts["one-stage steps"] < 20


def rolling_between(centre, time):
    """Positions on the two spheres of example 3 without torsion, from rest at `centre`: both
    contacts stick, so that the force between them is not unique, but the motion is. The sphere
    turns about the line through its contacts, and its centre circles about that of the large
    spheres."""
    touching = [(fixed - centre) / np.linalg.norm(fixed - centre) for fixed in (np.zeros(3), np.array([0, 11.4, 0]))]
    line = touching[1] - touching[0]
    arm = np.linalg.norm(np.cross(line, touching[0])) / np.linalg.norm(line)
    inert = centre[2] * (1 + 0.4 / arm**2)  # of the rolling sphere, over its way
    push = (1.0, -9.81)
    motion = solve_ivp(
        lambda _, y: [y[1], (push[0] * np.cos(y[0]) - push[1] * np.sin(y[0])) / inert], (0.0, time[-1]), [0.0, 0.0],
        rtol=1e-12, atol=1e-14, dense_output=True,
    )  # fmt: skip
    angle = motion.sol(time)[0]
    return np.stack([np.sin(angle), 0 * angle, np.cos(angle)], axis=1) * centre[2] + (0, centre[1], 0)


@pytest.mark.thorough
def test_redundant_friction_does_not_chatter():
    run = ist.simulate(scenes.two_spheres(shapes.Sphere, e_r=0.0), ist.RadauContact(), tol=1e-8, duration=1.0)
    np.testing.assert_allclose(run.position[:, 0], rolling_between(run.position[0, 0], run.time), atol=1e-8)
    assert run.counts["one-stage steps"] == 0


def test_redundant_sticking_finds_the_edge_of_a_cone(monkeypatch):
    """At the end of a step both contacts cannot quite stick; which one slips, the Jacobian does not
    say. A central path finds one too, with luck, and so does the start with closest points anew."""
    monkeypatch.setattr(ladder, "_paths", lambda *_, **__: iter(()))
    monkeypatch.setattr(ladder, "_RENEWALS", ())
    stepper, errors = ist.GeometricallyImplicit(), []
    for h in (0.005, 0.0025):
        run = ist.simulate(scenes.two_spheres(shapes.Sphere, e_r=0.0), stepper, h=h, duration=1.0)
        assert stepper.rungs[run.stats.rung[0]] == "internal forces"
        assert np.all(run.stats.rung[1:] == 0)
        errors.append(np.max(np.abs(run.position[:, 0] - rolling_between(run.position[0, 0], run.time))))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1.0, abs=0.05)


@pytest.mark.thorough
def test_a_brick_that_slides_off_a_table_is_followed_to_its_rest():
    """Without drilling friction, over an edge, onto another, and onto a face. It begins to tip when
    the centre of pressure, mu z before the centre of mass, reaches the edge."""
    speed, mu, way, height = 1.9, 0.3, 0.5, 0.035
    moving = {"position": (-way, 0, height), "velocity": (speed, 0, 0, 0, 0, 0), "density": 1800.0}
    scene = box_by_a_table((0.12, 0.06, height), (0, 0, 0), 0.75, (mu, 0.5), **moving)
    tips = (speed - np.sqrt(speed**2 - 2 * mu * G * (way - mu * height))) / (mu * G)
    for tol in (1e-4, 1e-5, 1e-6):
        run = ist.simulate(scene, ist.RadauContact(), tol=tol, duration=1.5)
        assert abs(run.events[0].time - tips) < tol
        # in flight the brick's edges are parallel to the table's but for rounding, as they are
        # below
        assert run.counts["one-stage steps"] < 20
        assert len(run) < 200
        np.testing.assert_allclose(run.position[-1, 0, 2], height - 0.75, atol=1e-9)
        assert np.max(np.diff(energy(run))) < 10 * tol * energy(run)[0]
        # it falls straight ahead: what rounding turns or pushes it aside does not grow
        np.testing.assert_allclose(run.position[-1, 0, 1], 0.0, atol=1e-6)


LYING, ROUND = 0.3, 0.2  # [m]: half length and radius of a capsule that lies on the ground


def pivoting(until, late):
    """Position (x, y) and angle of a capsule that lies, slides and spins, and its velocity (along,
    across, spin, roll), by equations of its own: its centre of pressure s, which keeps it level,
    and friction there, which is `late` [s] to turn."""
    barrel, caps = 2 * np.pi * ROUND**2 * LYING, 4 / 3 * np.pi * ROUND**3
    m, about = barrel + caps, barrel * ROUND**2 / 2 + caps * 0.4 * ROUND**2
    across = barrel * (ROUND**2 / 4 + LYING**2 / 3) + caps * (0.4 * ROUND**2 + LYING**2 + 0.75 * LYING * ROUND)

    def motion(_, z):
        _, _, turn, along, side, spin, roll, *y = z
        # friction y along and across, in the weight
        s = -ROUND * y[0] - about * roll * spin / (m * G)
        slip = np.array([along, side + spin * s + ROUND * roll])
        wanted = -0.3 * slip / np.sqrt(slip @ slip + late**2)
        c, d = np.cos(turn), np.sin(turn)
        speeds = [along * c - side * d, along * d + side * c, spin]
        return [
            *speeds, y[0] * G + spin * side, y[1] * G - spin * along, s * y[1] * m * G / across,
            ROUND * y[1] * m * G / about, *(wanted - y) / late,
        ]  # fmt: skip

    start = [0, 0, 0, 1, 0, 6, 0, -0.285, -0.094]
    return solve_ivp(motion, (0.0, until), start, method="Radau", rtol=1e-8, atol=1e-10).y[:7, -1]


def lying_capsule():
    """It slides along its axis, and spins."""
    lies = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)
    return on_a_floor(
        shapes.Capsule(ROUND, LYING), density=1000.0, position=(0, 0, ROUND), quaternion=lies,
        velocity=(1.0, 0, 0, 0, 0, 6.0), friction=0.3,
    )  # fmt: skip


@pytest.mark.thorough
def test_a_line_that_pivots_turns_its_friction_at_once_and_goes_on():
    """Without drilling friction: its friction acts at one point, whose slip depends on where that
    is, and that on friction. Twice until .45 s the direction of friction ends, and the next one is
    on another side of the line."""
    run = ist.simulate(lying_capsule(), ist.RadauContact(), tol=1e-6, duration=0.45)
    assert run.counts["one-stage steps"] == 0
    assert len(run) < 200
    x, y, turn, *velocity = pivoting(0.45, late=1e-7)
    axis, across = np.array([np.cos(turn), np.sin(turn), 0.0]), np.array([-np.sin(turn), np.cos(turn), 0.0])
    np.testing.assert_allclose(run.position[-1, 0], (x, y, ROUND), rtol=0, atol=2e-5)
    found = run.velocity[-1, 0]
    speeds = axis @ found[:3], across @ found[:3], found[5], axis @ found[3:]
    # those of the reference lag behind its turns
    np.testing.assert_allclose(speeds, velocity, rtol=0, atol=2e-2)
    # it stays level, and does not turn about the horizontal axis across it, but for what the first
    # steps after an event, which do not know yet that it lies, leave by the third power of their
    # length
    w, qx, qy, qz = run.orientation[1:, 0].T
    level = np.stack([-2 * (qy * qz - w * qx), 2 * (qx * qz + w * qy)], axis=1)
    tilting = np.sum(run.velocity[1:, 0, 3:5] * level, axis=1)[np.diff(run.time) > 1e-3]
    np.testing.assert_allclose(tilting, 0.0, atol=1e-5)
    assert np.mean(np.abs(tilting) < 1e-12) > 0.8
    # the direction of friction jumps, but not velocities
    assert np.max(np.diff(energy(run))) < 1e-5 * energy(run)[0]


def test_torques_of_tilts_act_across_lines_that_stay_on_the_ground_alone():
    """A step's certificate tells others: along the line, and those of a body that turns about the
    axis across it."""
    scene = lying_capsule()
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-6, duration=0.02)
    (system, _), step = scene.build(), len(run) - 1
    before, after = (
        State(*(getattr(run, name)[i] for name in ("time", "position", "orientation", "velocity"))) for i in (step, step + 1)
    )
    contacts = jax.tree.map(lambda a: a[step], run.contacts)
    own, h = contacts.stages, run.time[step + 1] - run.time[step]

    certificate = jit(functools.partial(ist.RadauContact().certificate, system, before, after), once=True)

    def violated(**changes):
        changed = dataclasses.replace(contacts, stages=dataclasses.replace(own, **changes))
        found = certificate(changed, h)
        return {name: float(np.max(value)) for name, value in found.items()}

    assert max(violated().values()) < 1e-10
    unit = run.mass[0] * G * h
    angle = np.arctan2(*np.linalg.norm(own.tilt[:, 0], axis=0)[::-1])
    for direction in (0.0, 0.5 * np.pi):
        turned = own.tilt + 1e-6 * unit * np.array([np.cos(angle + direction), np.sin(angle + direction)])
        assert violated(tilt=turned)["rates"] > 1e-7
    assert violated(tilt=own.tilt[..., ::-1] + 1e-6 * unit)["tilt"] > 1e-7
    tilting = own.velocity.copy()
    tilting[:, 0, 3:] += 1e-6
    assert violated(velocity=tilting)["tilt"] > 1e-8


def test_the_next_direction_of_friction_is_the_one_that_it_turns_to():
    """A line with slip (v, a + k cos b) at friction in the direction b: v tan b = a + k cos b.
    Where two of its roots meet, friction turns past the one that it is turned away from."""
    radius, spin, p, mu = 0.2, 6.0, 1000.0, 0.3
    k, v = spin * radius * mu, -0.03
    gives = np.zeros((3, 3))
    # the moment that the centre of pressure takes over, as friction along the line is below the
    # axis
    gives[2, 0] = radius

    def off(angle, a):
        return v * np.sin(angle) - (a + k * np.cos(angle)) * np.cos(angle)

    fine = np.linspace(0.5 * np.pi + 1e-3, 1.5 * np.pi - 1e-3, 200001)  # of slips with v < 0
    turned = []
    for a in np.linspace(0.2, 0.4, 41):
        value = off(fine, a)
        cross = np.flatnonzero(value[1:] * value[:-1] < 0)
        slope = np.sign(np.diff(value))[cross]
        stable = fine[cross][slope > 0]
        assert len(stable) in (1, 2)
        for present in stable:
            toward = np.array([np.cos(present), np.sin(present)])
            slip = np.array([v, a + k * toward[0]])
            line = folds._Line(slip, spin, p, -mu * p * toward, mu, gives)
            found = line.next_direction()
            others = np.abs(np.angle(np.exp(1j * (fine[cross][slope < 0] - present))))
            if found is None:
                assert len(stable) == 1 or np.min(others, initial=9.0) > np.radians(19)
            else:
                assert np.min(others, initial=9.0) < np.radians(21)
                other = stable[np.abs(stable - present) > 1e-3]
                np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * other[0]), atol=1e-4)
                turned.append(present < found)
    assert set(turned) == {True, False}


@pytest.mark.parametrize(("speed", "meets"), [(1e-20, False), (1e-13, False), (1e-9, True)])
def test_what_rests_but_for_rounding_meets_nothing(speed, meets):
    """Nothing else moves by which an approach could be measured."""
    half = (0.12, 0.06, 0.035)
    scene = box_by_a_table(half, (-9.0, 0, 0.75), 0.75, (0.3, 0.3), density=1e3, position=(0, 0, half[2]))
    system, state = scene.build()
    sinking = dataclasses.replace(state, velocity=jax.numpy.asarray([[0, 0, -speed, 0, 0, 0.0]]))
    tangents = np.tile(np.eye(3)[0], (2, 1))
    hit, *_ = after_events.resume(ist.RadauContact(), system, sinking, stepper.closest_points(system, state), tangents, ())
    assert bool(hit.acts) == meets
    np.testing.assert_allclose(hit.state.velocity[0, 2], 0.0 if meets else -speed, atol=1e-9 * speed)


def test_the_ladder_is_climbed_after_warm_starts_of_other_sizes(monkeypatch):
    """A pivoting body's step may take seconds of the ladder where one of another length is solved
    from its warm start."""
    scene = on_a_floor(shapes.Sphere(0.1), density=1e3, position=(0, 0, 0.1), friction=0.5)
    system, state = scene.build()
    stepper = ist.GeometricallyImplicit()
    solves = fallback.warm

    def only_long(stepper, system, state, memory, h, *others):
        after, memory, record = solves(stepper, system, state, memory, h, *others)
        return after, memory, record if h > 1e-4 else jax.tree.map(lambda a: a[:0], record)

    monkeypatch.setattr(fallback, "warm", only_long)
    found = euler_steps.steps(stepper, system, state, euler_steps.Known(np.zeros(1)), [1e-4, 1e-3, 1e-2], 1e-10, 3)
    assert (found.solved, found.h, found.starts) == (True, 1e-3, 0)
    np.testing.assert_allclose(np.concatenate([r.state.time for r in found.records]), [1e-3, 2e-3, 3e-3])
    np.testing.assert_allclose([found.before.time, found.after.time], [2e-3, 3e-3])


@pytest.mark.thorough
def test_a_vertex_that_is_nearly_flat_ends_no_run():
    """A polygon that lands spinning on two sides which are .06 degrees from being one: it rocks
    between them, loses energy alone, stays above the floor, and comes to rest on a side."""
    low = -0.2 - 0.5 * np.tan(np.radians(0.03))
    vertices = np.array([(-0.5, -0.2), (0, low), (0.5, -0.2), (0, 0.4)])
    moving = {"density": 100.0, "position": (0, 0.3), "velocity": (0, -1, 0.1), "friction": 0.5}
    scene = on_a_floor(shapes.Polygon(vertices), **moving)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-6, duration=1.0)
    assert run.time[-1] == 1.0
    assert np.max(np.diff(energy(run))) < 1e-8 * energy(run)[0]
    nxt = np.roll(vertices, -1, axis=0)
    areas = vertices[:, 0] * nxt[:, 1] - vertices[:, 1] * nxt[:, 0]
    arms = vertices - areas @ (vertices + nxt) / (3 * np.sum(areas))
    angle = run.orientation[:, 0, :1]
    heights = run.position[:, 0, 1:] + np.sin(angle) * arms[:, 0] + np.cos(angle) * arms[:, 1]
    assert np.min(heights) > -1e-9
    np.testing.assert_allclose(np.sort(heights[-1])[:2], 0.0, atol=1e-9)
    np.testing.assert_allclose(run.velocity[-1], 0.0, atol=1e-6)
