"""Laws of impact: a cradle by both choices, Poisson's law against an enumeration of its modes, and
energy."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import detection
from implicit_stepper.radau import impact
from implicit_stepper.radau.impact_certificate import impact_violations
from implicit_stepper.run import parameters
from implicit_stepper.runtime.compilation import jit

BALLS, R = 5, 0.1


def row(law, masses):
    """Balls that touch in a row."""
    scene = ist.Scene(gravity=(0, 0, 0), length_scale=R, acceleration_scale=10.0)
    balls = [
        scene.add_body(name=f"ball {i}", shape=shapes.Sphere(R), mass=masses[i], position=(2 * R * i, 0, 0))
        for i in range(len(masses))
    ]
    for one, other in itertools.pairwise(balls):
        scene.add_contact(one, other, restitution=law)
    return scene.build()


@functools.partial(jit, once=True, static_argnums=4)
def collide(system, start, closest, velocities, sequential):
    def one(velocity):
        before = dataclasses.replace(start, velocity=velocity)
        return before, impact.meet(system, before, closest, None, sequential)[0]

    return jax.lax.map(one, velocities)


def impacts(system, start, velocities, sequential=False):
    """From `start` with velocities (n, nb, w): the states before and the impacts, which are all
    solved."""
    before, hit = collide(system, start, detection.closest_points(system, start), np.asarray(velocities, float), sequential)
    assert np.all(hit.converged)
    return before, hit


def violations(system, before, hit, i, sums=False):
    """The largest by name of impact i."""
    states = [jax.tree.map(lambda a: a[i], tree) for tree in (before, hit.state, hit.contacts)]
    return {name: float(np.max(v)) for name, v in impact_violations(system, *states, 0.0, sums).items()}


def along(speeds):
    velocity = np.zeros((len(speeds), 6))
    velocity[:, 0] = speeds
    return velocity


def test_a_cradle_passes_on_as_many_balls_as_come_one_after_another():
    system, start = row(ist.Newton(1.0), np.ones(BALLS))
    speeds = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, -1], [1, 1, 1, 0, 0]], float)
    before, hit = impacts(system, start, [along(v) for v in speeds], sequential=True)
    np.testing.assert_allclose(hit.state.velocity[..., 0], speeds[:, ::-1], rtol=0, atol=1e-12)
    for i in range(len(speeds)):
        assert max(violations(system, before, hit, i, sums=True).values()) <= 1e-12
    wrong = dataclasses.replace(hit.state, velocity=hit.state.velocity[:, ::-1])
    found = violations(system, before, dataclasses.replace(hit, state=wrong), 0, sums=True)
    assert min(found["gap"], found["impact"]) > 0.1


@functools.partial(jit, once=True)
def changed(system, start, closest, velocities, direction):
    """d(velocity after a sequence) along the `direction` of velocity and masses."""

    def after(velocity, mass):
        own, before = dataclasses.replace(system, mass=mass), dataclasses.replace(start, velocity=velocity)
        return impact.meet(own, before, closest, None, True)[0].state.velocity

    return jax.lax.map(lambda velocity: jax.jvp(after, (velocity, system.mass), direction)[1], velocities)


def test_a_sequence_begins_with_the_fastest_again_and_again():
    """Of unequal balls, whose order matters: against the impacts of pairs, one by one; and its
    derivative by velocities and masses against the imaginary part of these where both have a tiny
    one."""
    rng = np.random.default_rng(0)
    # all approach at once
    masses, speeds = rng.uniform(0.5, 2, BALLS), -np.sort(-rng.normal(size=(4, BALLS)))
    system, start = row(ist.Newton(1.0), masses)
    before, hit = impacts(system, start, [along(v) for v in speeds], sequential=True)
    faster, heavier = rng.normal(size=(2, BALLS))
    closest, direction = detection.closest_points(system, start), (along(faster), heavier)
    slopes = changed(system, start, closest, before.velocity, direction)[..., 0]
    tiny = 1e-30j
    masses = masses + tiny * heavier
    for v, after, slope in zip(speeds + tiny * faster, hit.state.velocity[..., 0], slopes, strict=True):
        while np.max((v[:-1] - v[1:]).real) > 1e-6:
            i = int(np.argmax((v[:-1] - v[1:]).real))
            impulse = 2 * (v[i] - v[i + 1]) / (1 / masses[i] + 1 / masses[i + 1])
            v[i : i + 2] += impulse * np.array([-1, 1]) / masses[i : i + 2]
        np.testing.assert_allclose(after, v.real, rtol=0, atol=1e-11)
        np.testing.assert_allclose(slope, v.imag / tiny.imag, rtol=0, atol=1e-11)


RUBS, DRILLS = 1e-3 * np.eye(3)[0], 1e-3 * np.eye(3)[2]  # [N s], [N m s]


@pytest.mark.parametrize(
    ("changed", "law"),
    [
        (lambda of: {"friction_impulse": of.friction_impulse + DRILLS}, "no impulse on an axis without friction"),
        (lambda of: {"friction_impulse": of.friction_impulse + RUBS}, "cone"),
        (lambda of: {"gap": of.gap + 1e-3 * R}, "p_n _|_ f(a2)"),
    ],
    ids=["drills", "rubs", "apart"],
)
def test_the_sum_of_several_impacts_is_certified(changed, law):
    """Of balls without friction: impulses that drill, that rub, and across a gap."""
    system, start = row(ist.Newton(1.0), np.ones(BALLS))
    before, hit = impacts(system, start, 4 * [along([1, 0, 0, 0, 0])], sequential=True)
    assert violations(system, before, hit, 0, sums=True)[law] <= 1e-12
    wrong = dataclasses.replace(hit, contacts=dataclasses.replace(hit.contacts, **changed(hit.contacts)))
    assert violations(system, before, wrong, 0, sums=True)[law] > 1e-4
    late = dataclasses.replace(hit, state=dataclasses.replace(hit.state, time=hit.state.time + 1e-3))
    assert violations(system, before, late, 0, sums=True)["pose"] > 1e-4


@pytest.mark.thorough
def test_impacts_have_room_for_what_touches():
    """Three of the six pairs of four balls in a row, to which a joint that rubs is added: with room
    for them the impact is that of all pairs, with less it is not solved."""
    scene = ist.Scene(gravity=(0, 0, 0), length_scale=R, acceleration_scale=10.0)
    balls = [scene.add_body(shape=shapes.Sphere(R), mass=1.0 + i, position=(2 * R * i, 0, 0), name=f"{i}") for i in range(4)]
    for one, other in itertools.combinations(balls, 2):
        scene.add_contact(one, other, friction=0.3, restitution=ist.Newton(0.5))
    rubs = ist.JointFriction(mu=0.2, radius=0.05)
    wheel = scene.add_body(shape=shapes.Sphere(R), mass=2.0, position=(6 * R, 3 * R, 0), name="wheel")
    axle = {"point_1": (0, 1.5 * R, 0), "axis_1": (0, 0, 1), "point_2": (0, -1.5 * R, 0), "axis_2": (0, 0, 1)}
    scene.add_joint(balls[-1], wheel, ist.Hinge(**axle, friction=rubs))
    system, start = scene.build()
    velocity = (
        along((1.0, 0.0, 0.0, 0.0, 0.0)) + 0.1 * np.random.default_rng(2).normal(size=(5, 6)) * (np.arange(5) < 1)[:, None]
    )
    before = dataclasses.replace(start, velocity=velocity)
    closest = detection.closest_points(system, start)
    meet = jit(impact.meet, once=True, static_argnums=(4, 5))
    (whole, after), (part, same), (less, _) = (meet(system, before, closest, None, False, n) for n in (None, 3, 2))
    assert (bool(whole.converged), bool(part.converged), bool(less.converged)) == (True, True, False)
    assert np.count_nonzero(whole.contacts.normal_impulse) == 3
    for own, one in zip(jax.tree.leaves(part), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(own, one, rtol=0, atol=1e-12)
    # changes of velocities over a millionth of sqrt(L / g), of which rounding is 1e-9
    np.testing.assert_allclose(same.acceleration, after.acceleration, rtol=0, atol=1e-8)


def test_what_nearly_touches_does_not_meet():
    """The last of three balls, a thousandth of a radius away."""
    system, start = row(ist.Newton(1.0), np.ones(3))
    start = dataclasses.replace(start, position=np.asarray(start.position) + 1e-3 * R * np.eye(3)[0] * np.eye(3)[2, :, None])
    _, hit = impacts(system, start, 40 * [along([1, 0, 0])])
    np.testing.assert_allclose(hit.state.velocity[..., 0], 40 * [[0, 1, 0]], rtol=0, atol=1e-12)


@pytest.mark.parametrize("law", [ist.Newton, ist.Poisson])
def test_all_at_once_share_what_the_first_brings(law):
    system, start = row(law(1.0), np.ones(3))
    slight = 1e-7  # [m/s]: less than 1e-6 sqrt(g L), without rebound
    speeds = [[1, 0, 0], [1, 1, 0], [slight, 0, 0], [0, 0, -slight]]
    # as many as below: one program
    _, hit = impacts(system, start, 10 * [along(v) for v in speeds])
    exact = np.array(10 * [[-1, 2, 2], [1, 1, 4], 3 * [slight], 3 * [-slight]]) / 3
    np.testing.assert_allclose(hit.state.velocity[..., 0], exact, rtol=0, atol=1e-12)


def test_poisson_of_several_contacts_against_all_choices_of_those_that_press():
    masses, e, rng = np.array([1.0, 3.0, 0.5]), 0.6, np.random.default_rng(5)
    system, start = row(ist.Poisson(e), masses)
    speeds = rng.normal(size=(40, 3))
    _, hit = impacts(system, start, [along(v) for v in speeds])
    normals = np.eye(2, 3, 1) - np.eye(2, 3)
    for i, v in enumerate(speeds):
        compressed = part(normals, masses, v, np.zeros(2))
        expanded = part(normals, masses, v + normals.T @ compressed / masses, e * compressed)
        after = v + normals.T @ (compressed + expanded) / masses
        np.testing.assert_allclose(hit.state.velocity[i, :, 0], after, rtol=0, atol=1e-11)
        assert masses @ after**2 <= masses @ v**2 * (1 + 1e-12)


def part(normals, masses, v, least):
    """P >= least with 0 <= P - least _|_ normals v+ >= 0, from all sets of contacts that press."""
    N = normals @ (normals.T / masses[:, None])
    for pressed in itertools.product((False, True), repeat=len(least)):
        on, P = np.array(pressed), least.copy()
        P[on] = np.linalg.solve(N[np.ix_(on, on)], -(normals @ v + N[:, ~on] @ least[~on])[on])
        if np.all(least - 1e-13 <= P) and np.all(normals @ v + N @ P >= -1e-13):
            return P
    raise AssertionError("no choice of contacts solves the impact")


@pytest.fixture(scope="module")
def rods():
    """For each law with e = 1 a rod that meets rough ground at an angle, from 60 velocities."""
    velocities = np.random.default_rng(3).normal(size=(60, 1, 3)) * [1.0, 1.0, 2.0]
    found = {}
    for law in (ist.Newton, ist.Poisson):
        scene = ist.Scene(dimension=2, gravity=(0, 0), length_scale=1.0, acceleration_scale=10.0)
        ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1), offset=-HEIGHT))
        rod = scene.add_body(
            name="rod", shape=shapes.Ellipse((1.0, 0.1)), mass=1.0, inertia=0.3, position=(0, 0), angle=ANGLE
        )
        scene.add_contact(ground, rod, friction=MU, restitution=law(1.0))
        system, start = scene.build()
        found[law] = system, *impacts(system, start, velocities)
    return found


ANGLE, MU = 0.9, 0.6
HEIGHT = np.hypot(np.sin(ANGLE), 0.1 * np.cos(ANGLE))
MASSES = np.array([1.0, 1.0, 0.3])
# of the lowest point of the ellipse, from its centre: normal and tangential rows
LOWEST = np.array([(0.1**2 - 1) * np.sin(ANGLE) * np.cos(ANGLE) / HEIGHT, -HEIGHT])
ROWS = np.array([[0.0, 1.0, LOWEST[0]], [1.0, 0.0, -LOWEST[1]]])


def rubbing(v, least):
    """Impulses (p_n, p_t) of one contact with friction, from all of its modes: (p_n - least) _|_
    v_n+, stick or slip."""
    N, u = ROWS @ (ROWS.T / MASSES[:, None]), ROWS @ v
    for presses in (True, False):
        for side in (0, 1, -1):
            A = np.array([N[0] if presses else [1.0, 0.0], N[1] if side == 0 else [-side * MU, 1.0]])
            p = np.linalg.solve(A, [-u[0] if presses else least, -u[1] if side == 0 else 0.0])
            w = u + N @ p
            law = abs(p[1]) <= MU * p[0] + 1e-12 if side == 0 else w[1] * side <= 1e-12
            if p[0] >= least - 1e-12 and w[0] >= -1e-12 and law:
                return p
    raise AssertionError("no mode solves the impact")


def test_poisson_with_friction_against_all_modes(rods):
    _, before, hit = rods[ist.Poisson]
    for v, after in zip(before.velocity[:, 0], hit.state.velocity[:, 0], strict=True):
        compressed = rubbing(v, 0.0)
        expanded = rubbing(v + ROWS.T @ compressed / MASSES, compressed[0])
        exact = v + ROWS.T @ (compressed + expanded) / MASSES
        np.testing.assert_allclose(after, exact, rtol=0, atol=1e-11)


def test_newton_with_friction_can_raise_energy_and_poisson_does_not(rods):
    gains = {}
    for law, (_, before, hit) in rods.items():
        energy = [np.sum(MASSES * state.velocity[:, 0] ** 2, axis=1) / 2 for state in (before, hit.state)]
        gains[law] = np.asarray((energy[1] - energy[0]) / energy[0])
    system, before, hit = rods[ist.Newton]
    worst = int(np.argmax(gains[ist.Newton]))
    assert violations(system, before, hit, worst)["energy"] == pytest.approx(gains[ist.Newton][worst], abs=1e-12)
    assert np.max(gains[ist.Poisson]) <= 1e-12
    assert np.max(gains[ist.Newton]) > 1e-2


def test_laws_do_not_mix_and_sequences_need_events():
    scene = ist.Scene(dimension=2)
    ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
    one, other = (
        scene.add_body(name=name, shape=shapes.Disc(0.1), mass=1.0, position=(x, 1)) for name, x in (("a", 0), ("b", 1))
    )
    scene.add_contact(ground, one, restitution=ist.Newton(0.5))
    with pytest.raises(ValueError, match=r"Poisson\(e=0.5\) beside others of Newton: an impact"):
        scene.add_contact(ground, other, restitution=ist.Poisson(0.5))
    with pytest.raises(ValueError, match=r"`e` = -0.1 is not in \[0, 1\]"):
        ist.Poisson(-0.1)
    scene = ist.Scene(dimension=2)
    scene.add_body(name="a", shape=shapes.Disc(0.1), mass=1.0, position=(0, 1))
    with pytest.raises(ValueError, match="`impacts` = 'sequential' needs impacts as events"):
        ist.simulate(scene, ist.RadauContact(impacts="sequential"), h=0.1, duration=1.0)
    with pytest.raises(ValueError, match="impacts"):
        ist.RadauContact(impacts="both")


def test_a_scene_file_has_both_laws(tmp_path):
    for law in (ist.Newton, ist.Poisson):
        scene = ist.Scene(dimension=2)
        ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
        disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 1))
        scene.add_contact(ground, disc, restitution=law(0.25))
        scene.save(tmp_path / "scene.toml")
        read = ist.load_scene(tmp_path / "scene.toml")
        assert read.description().contacts == scene.description().contacts


def test_an_impact_is_where_the_step_before_it_has_its_closest_points():
    """On a flat spot these are far less certain than their equations: another iteration moves them
    by more than a certificate allows. Points that are no root are found anew."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    pillow = shapes.Superquadric((0.3, 0.2, 0.2), epsilon=(0.5, 0.5))
    scene.add_contact(floor, scene.add_body(name="pillow", shape=pillow, density=1e3, position=(0, 0, 0.2)), friction=0.3)
    system, state = scene.build()
    (closest,) = map(jnp.asarray, detection.closest_points(system, state))
    for off, stays in ((1e-6, True), (1e-2, False)):
        moved = (closest.at[:, 0].add(off).at[:, 3].add(off),)
        found = jax.jit(functools.partial(detection.find, recorded=True))(system, state, moved)
        assert np.array_equal(found.closest[0], moved[0]) == stays
        assert abs(found.geometry.a1[0, 0]) < (1.1e-6 if stays else 0.9e-2)
        assert not np.array_equal(jax.jit(detection.find)(system, state, moved).closest[0], moved[0])


@pytest.mark.parametrize("law", [ist.Newton(0.5), ist.Poisson(0.5)])
def test_an_impact_without_friction_has_a_derivative_by_it(law):
    """P_n = (1 + e) m v_n, whose mu-th part takes speed from a disc that slides, and spins it."""
    mass, inertia, radius = 2.0, 0.03, 0.1
    scene = ist.Scene(dimension=2)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    body = {"shape": shapes.Disc(radius), "mass": mass, "inertia": inertia}
    disc = scene.add_body(name="disc", position=(0, radius), velocity=(1.0, -3.0, 0.0), **body)
    scene.add_contact(disc, floor, restitution=law)
    system, start = scene.build()
    closest = detection.closest_points(system, start)

    def after(mu):
        own, begun = parameters.changed(system, start, {"mu": mu})
        return impact.meet(own, begun, closest)[0].state.velocity[0]

    slope = jax.jit(jax.jacfwd(after))(0.0)
    pushed = 1.5 * mass * 3.0
    np.testing.assert_allclose(slope, [-pushed / mass, 0.0, -pushed * radius / inertia], rtol=0, atol=1e-9)
