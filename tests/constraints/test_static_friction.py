"""Static friction of its own: thresholds and times of breaking away against closed forms, and what
it refuses."""

import dataclasses

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.model.bodies import State
from implicit_stepper.stepping.loop import CHUNK, certificates
from implicit_stepper.stepping.run_certificate import held_violations

pytestmark = pytest.mark.filterwarnings("ignore::implicit_stepper.OverlapWarning")
G, H = 9.81, 0.01
MU_S, MU = 0.5, 0.3
STEEP = np.arctan(MU_S * (1 + np.array([-1e-9, 1e-9])))
SPRING, BELT = 20.0, 0.1  # [N/m], [m/s]
AXES = 0.2, 0.1  # [m]
WHEEL, RADIUS, RAMP = 0.1, 0.1, 0.4  # [kg m^2], [m], [N m/s]
# [s], of the block on the belt and of the wheel
BREAKS = MU_S * G / (SPRING * BELT), MU_S * RADIUS * G / RAMP
LAW = ist.FrictionEllipsoid(MU, mu_s=MU_S)


def ramp(time, position, orientation, velocity):
    """The torque on the wheel."""
    return np.array([0.0, 0.0, RAMP]) * time


def belt(time):
    return np.array([BELT, 0.0]) * time + np.array([0.0, 5.0]), 0.0 * time


@pytest.fixture(scope="module")
def scene():
    """Two blocks on inclines just below and just above the limit; one that a belt pulls against a
    spring; and a wheel with a growing torque on an axle that rubs. All of 1 kg; blocks do not turn,
    as their inertia is large."""
    made = ist.Scene(dimension=2, length_scale=0.1)
    block = {"shape": shapes.Disc(0.1), "mass": 1.0, "inertia": 1e12}
    for i, angle in enumerate(STEEP):
        up, along = np.array([-np.sin(angle), np.cos(angle)]), np.array([np.cos(angle), np.sin(angle)])
        slope = made.add_fixed(name=f"slope {i}", shape=shapes.HalfPlane(normal=up))
        made.add_contact(slope, made.add_body(name=f"block {i}", position=0.1 * up + i * along, **block), friction=LAW)
    moves = made.add_moving(name="belt", pose=belt, shape=shapes.HalfPlane(normal=(0, 1)), mass=1.0, inertia=1.0)
    pulled = made.add_body(name="pulled", position=(0, 5.1), velocity=(BELT, 0, 0), **block)
    made.add_contact(moves, pulled, friction=LAW)
    made.add_joint(slope, pulled, ist.Spring((0, 5.1), (0, 0), stiffness=SPRING), name="spring")
    wheel = made.add_body(name="wheel", shape=shapes.Disc(0.2), mass=1.0, inertia=WHEEL, position=(3, 0), wrench=ramp)
    pin = ist.BallJoint((3, 0), (0, 0), friction=ist.JointFriction(MU, radius=RADIUS, mu_s=MU_S))
    made.add_joint(slope, wheel, pin, name="axle")
    return made


@pytest.fixture(scope="module")
def run(scene):
    return ist.simulate(scene, ist.GeometricallyImplicit(), h=H, duration=3.3)


def test_a_block_moves_if_and_only_if_its_slope_is_steeper_than_mu_s(run):
    """To a part in 10^9, and then with mu."""
    below, above = (run.body(f"block {i}").velocity for i in (0, 1))
    # friction turns it by a torque over its large inertia
    np.testing.assert_allclose(below[:, :2], 0, atol=1e-12)
    speed = -above[:, :2] @ [np.cos(STEEP[1]), np.sin(STEEP[1])]
    np.testing.assert_allclose(speed, G * (np.sin(STEEP[1]) - MU * np.cos(STEEP[1])) * run.time, atol=1e-9)
    assert np.all(run.contacts.mu[:, 0] == MU_S)
    assert np.all(run.contacts.mu[:, 1] == MU)


def test_a_block_on_a_belt_sticks_and_slips(run):
    """It breaks away as the spring pulls with mu_s m g, swings about where it pulls with mu m g,
    and sticks at the belt's speed: half a swing and a bit later."""
    slips = run.contacts.sigma[:, 2] > 1e-9
    (first, *_), last = np.flatnonzero(slips), np.flatnonzero(slips)[-1]
    assert run.time[first] < BREAKS[0] <= run.time[first + 1]
    rate, reach = np.sqrt(SPRING), (MU_S - MU) * G / SPRING  # [1/s], [m]
    sticks = BREAKS[0] + (2 * np.pi - 2 * np.arctan(reach * rate / BELT)) / rate
    assert np.all(slips[first : last + 1])
    assert run.time[last + 1] == pytest.approx(sticks, abs=2 * H)
    slipped = np.append(False, slips[:-1])  # before the step, in which it may come to stick
    np.testing.assert_array_equal(run.contacts.mu[:, 2], np.where(slips | slipped, MU, MU_S))
    np.testing.assert_allclose(run.body("pulled").velocity[:first, 0], BELT, rtol=0, atol=1e-12)


def test_a_wheel_breaks_away_as_its_axle_says(run):
    """The torque on it is that of the beginning of each step; the axle carries the weight."""
    spin = run.body("wheel").velocity[1:, 2]
    torque = RAMP * run.time[:-1]
    holds = torque <= MU_S * RADIUS * G
    np.testing.assert_allclose(spin[holds], 0, atol=1e-12)
    np.testing.assert_allclose(np.diff(spin)[~holds[1:]], H * (torque[~holds] - MU * RADIUS * G) / WHEEL, atol=1e-10)
    np.testing.assert_array_equal(run.joints.mu[:, -1], np.where(holds, MU_S, MU))


def pulled(inertia=1e12, angle=0.0, velocity=(0, 0, 0)):
    """An ellipse on the ground, or above it, that a spring pulls whose other end runs away; and the
    wheel. One structure, so that its programs are compiled once."""
    made = ist.Scene(dimension=2, length_scale=0.1)
    floor = made.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    a, b = AXES
    where = {"position": (0, np.hypot(a * np.sin(angle), b * np.cos(angle))), "angle": angle, "velocity": velocity}
    pull = ist.Wrench(("k * (v * t - x)", 0), parameters={"k": SPRING, "v": BELT})
    body = made.add_body(name="body", shape=shapes.Ellipse(AXES), mass=1.0, inertia=inertia, wrench=pull, **where)
    made.add_contact(floor, body, friction=LAW)
    wheel = made.add_body(name="wheel", shape=shapes.Disc(0.2), mass=1.0, inertia=WHEEL, position=(3, 0), wrench=ramp)
    pin = ist.BallJoint((3, 0), (0, 0), friction=ist.JointFriction(MU, radius=RADIUS, mu_s=MU_S))
    made.add_joint(floor, wheel, pin, name="axle")
    return made


@pytest.fixture(scope="module")
def chosen():
    return ist.simulate(pulled(), ist.RadauContact(), tol=1e-8, duration=6.0)


def test_chosen_steps_break_away_at_events(chosen):
    """The axle and the body let go, the body sticks after half a swing and a bit, and lets go again
    after the end of the spring has run on by twice its reach."""
    rate, reach = np.sqrt(SPRING), (MU_S - MU) * G / SPRING  # [1/s], [m]
    sticks = BREAKS[0] + (2 * np.pi - 2 * np.arctan(reach * rate / BELT)) / rate
    told = [("axle", "slips"), (0, "slips"), (0, "sticks"), (0, "slips")]
    assert [event[1:] for event in chosen.events] == told
    times = BREAKS[1], BREAKS[0], sticks, sticks + 2 * reach / BELT
    np.testing.assert_allclose([event.time for event in chosen.events], times, rtol=0, atol=1e-8)
    since = np.maximum(chosen.time - BREAKS[1], 0)
    spin = (RAMP * since * (since + 2 * BREAKS[1]) / 2 - MU * RADIUS * G * since) / WHEEL
    np.testing.assert_allclose(chosen.body("wheel").velocity[:, 2], spin, rtol=0, atol=1e-11)
    assert chosen.counts["one-stage steps"] == 0


def test_chosen_steps_tell_their_coefficients(chosen):
    """Each from the event before it on, certified: neither another one, nor mu_s of what slips."""
    begun, times = chosen.time[:-1], [event.time for event in chosen.events]
    slipping = (begun >= times[1]) & ~((begun >= times[2]) & (begun < times[3]))
    np.testing.assert_array_equal(chosen.contacts.mu[:, 0], np.where(slipping, MU, MU_S))
    np.testing.assert_array_equal(chosen.joints.mu[:, 0], np.where(begun < times[0], MU_S, MU))
    system, _ = pulled().build()
    states = State(chosen.time, chosen.position, chosen.orientation, chosen.velocity)
    begins = int(np.argmax(slipping))
    part = slice(begins, begins + CHUNK)
    first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (begins, slice(begins + 1, begins + CHUNK + 1)))
    contacts = jax.tree.map(lambda a: a[part], chosen.contacts)
    fast = contacts.sigma[:, 0] > 0.1  # [m/s], more than it varies by in a step
    assert np.sum(fast) > 20
    for name, lie in (("static friction", 0.4), ("held by static friction", MU_S)):
        mu = np.full_like(contacts.stages.contacts.mu, lie)
        lies = dataclasses.replace(contacts.stages, contacts=dataclasses.replace(contacts.stages.contacts, mu=mu))
        told = dataclasses.replace(contacts, stages=lies)
        found = certificates(ist.RadauContact(), system, first, ends, told, chosen.h[part])[name][:, 0]
        assert np.max(chosen.certificate[name]) <= 1e-10
        assert np.all(found[1:][fast[:-1]] > 1e-4)


def test_what_comes_to_touch_without_slip_is_held_by_mu_s():
    """The ellipse falls straight, tilted: what stops its lowest point needs a ratio of impulses
    between mu and mu_s."""
    tilt, inertia, (a, b) = 0.3, 0.008, AXES
    height = np.hypot(a * np.sin(tilt), b * np.cos(tilt))
    # of that point from the centre
    away = np.array([-(a**2 - b**2) * np.sin(tilt) * np.cos(tilt) / height, -height])
    spin = away[0] / (inertia + away @ away)  # about the point, which does not move
    velocity = spin * np.array([away[1], -away[0]])
    assert MU < abs(velocity[0]) / (1 + velocity[1]) < MU_S
    found = ist.simulate(pulled(inertia, tilt, (0, -1, 0)), ist.RadauContact(), tol=1e-8, duration=1e-3)
    np.testing.assert_allclose(found.velocity[1, 0], [*velocity, spin], rtol=0, atol=1e-9)
    assert found.contacts.mu[1, 0] == MU_S


@pytest.mark.thorough
def test_a_block_on_its_face_breaks_away():
    """Under a growing push, at mu_s m g; then mu m g is what it meets."""
    made = ist.Scene(dimension=2, length_scale=0.1)
    floor = made.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    shape = shapes.Polygon([(-0.2, -0.1), (0.2, -0.1), (0.2, 0.1), (-0.2, 0.1)])
    push = ist.Wrench(("0.5 * t", 0))
    box = made.add_body(name="box", shape=shape, mass=1.0, position=(0, 0.1), wrench=push)
    made.add_contact(floor, box, friction=LAW)
    found = ist.simulate(made, ist.RadauContact(), tol=1e-8, duration=12.0)
    breaks = MU_S * G / 0.5
    assert [event[1:] for event in found.events] == [(0, "slips")]
    assert found.events[0].time == pytest.approx(breaks, abs=1e-8)
    since = np.maximum(found.time - breaks, 0)
    np.testing.assert_allclose(found.velocity[:, 0, 0], 0.25 * since * (since + 2 * breaks) - MU * G * since, atol=1e-9)


def test_what_holds_is_certified(run, scene):
    """A coefficient that is neither, mu_s of what slips, and mu_s of what slipped before."""
    system, _ = scene.build()
    states = State(run.time, run.position, run.orientation, run.velocity)
    first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (0, slice(1, CHUNK + 1)))
    contacts = jax.tree.map(lambda a: a[:CHUNK], run.contacts)
    assert max(np.max(values) for values in run.certificate.values()) <= 1e-10
    for number, mu in ((0, 0.4), (1, MU_S)):
        lies = dataclasses.replace(contacts, mu=contacts.mu.copy())
        lies.mu[:, number] = mu
        found = certificates(ist.GeometricallyImplicit(), system, first, ends, lies, np.full(CHUNK, H))
        assert np.min(found["static friction"][:, number]) > 1e-3
    slipped = dataclasses.replace(run.contacts, mu=np.full_like(run.contacts.mu, MU_S))
    found = held_violations(system, None, slipped)["held by static friction"]
    assert np.max(found[:, 0]) <= 1e-10 < np.min(found[1:, 1])


def test_a_run_goes_on_from_a_state(run, scene):
    """What sticks and what slips is seen from the velocities."""
    middle = 270  # the block on the belt slips, and the wheel spins
    start = State(*(np.asarray(a)[middle] for a in (run.time, run.position, run.orientation, run.velocity)))
    rest = ist.simulate(scene, ist.GeometricallyImplicit(), h=H, duration=3.3 - middle * H, start=start)
    np.testing.assert_allclose(rest.velocity[-1], run.velocity[-1], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(rest.contacts.mu, run.contacts.mu[middle:])


def small(friction, joint_friction=None):
    """A disc on the ground and, with friction, a wheel."""
    made = ist.Scene(dimension=2)
    floor = made.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    disc = made.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, inertia=0.1, position=(0, 0.1))
    made.add_contact(floor, disc, friction=friction)
    if joint_friction is not None:
        wheel = made.add_body(name="wheel", shape=shapes.Disc(0.1), mass=1.0, inertia=0.1, position=(1, 1))
        made.add_joint(floor, wheel, ist.BallJoint((1, 1), (0, 0), friction=joint_friction), name="axle")
    return made


def test_a_scene_file_has_it(tmp_path):
    made = small(LAW, ist.JointFriction(MU, radius=RADIUS, mu_s=MU_S))
    made.save(tmp_path / "scene.toml")
    found = ist.load_scene(tmp_path / "scene.toml")
    assert found.description().contacts == made.description().contacts
    assert found.description().joints == made.description().joints


@pytest.mark.parametrize(
    "stepper", [ist.RadauContact(), ist.ClosedFormGap(), ist.ConeComplementarity(), ist.Linearized(), ist.Convex()]
)
def test_steppers_that_have_one_coefficient_say_so(stepper):
    of_joint = ist.JointFriction(MU, radius=RADIUS, mu_s=MU_S)
    for made, where in ((small(LAW), "floor and disc"), (small(MU, of_joint), "joint 'axle'")):
        if where == "floor and disc" or stepper.can.joints:
            with pytest.raises(ValueError, match=f"has one coefficient.*, and {where} a `mu_s`.*take Geom"):
                ist.simulate(made, stepper, h=H, duration=H)


def test_what_cannot_be_is_refused():
    for law in (ist.FrictionEllipsoid, ist.JointFriction):
        for mu_s in (0.2, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="`mu_s`"):
                law(0.3, mu_s=mu_s)
    with pytest.raises(ValueError, match="one coefficient of friction"):
        ist.solutions(small(LAW), H)


@pytest.mark.thorough
def test_found_pairs_and_their_joints_break_away_as_declared_ones(scene, run):
    """Blocks on slopes, on the belt against its spring, and the axle that rubs."""
    found = ist.simulate(scene, ist.GeometricallyImplicit(jacobian="sparse"), h=H, duration=2.0)
    steps = slice(0, len(found))
    names = [run.contact_names.index(pair if pair in run.contact_names else pair[::-1]) for pair in found.contact_names]
    np.testing.assert_array_equal(found.contacts.mu, run.contacts.mu[steps, names])
    np.testing.assert_array_equal(found.joints.mu, run.joints.mu[steps])
    assert set(found.joints.mu[:, found.joint_names.index("axle")]) == {MU, MU_S}
    np.testing.assert_allclose(found.velocity, run.velocity[: len(found) + 1], rtol=0, atol=1e-9)
    assert max(np.max(values) for values in found.certificate.values()) <= 1e-10
    assert "joint held by static friction" in found.certificate


STRIKES, TILTED, REBOUND = 1.0, np.pi / 4, 0.5  # [m/s], direction of the blow from the vertical, e


def struck():
    """Two discs of 1 kg that lie on floors and are struck from above, along a line that is
    `TILTED`, by one of their kind without friction; mu_s holds the first, and does not hold the
    second."""
    made, disc = ist.Scene(dimension=2, gravity=(0, 0)), {"shape": shapes.Disc(0.1), "mass": 1.0}
    floor = made.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    towards = np.array([np.sin(TILTED), -np.cos(TILTED)])
    for i, mu_s in enumerate((0.35, 0.32)):
        place = np.array([i, 0.1])
        lies = made.add_body(name=f"lies {i}", position=place, **disc)
        strikes = {"position": place - 0.21 * towards, "velocity": (*(STRIKES * towards), 0)}
        strikes = made.add_body(name=f"strikes {i}", **strikes, **disc)
        made.add_contact(floor, lies, friction=ist.FrictionEllipsoid(MU, mu_s=mu_s))
        made.add_contact(strikes, lies, friction=0.0, restitution=ist.Newton(REBOUND))
    return made


@pytest.mark.thorough
def test_static_friction_holds_in_an_impact_of_given_steps_what_slips_neither_before_nor_after():
    """A blow P from above and the side is borne by P_y and, where the disc rolls, by a third of P_x
    (a disc has half the inertia of a ring); 1/3 is above mu and one mu_s, and below the other. From
    momentum and (1 + e) v_n, P = (1 + e) v / (1 + sin^2 / (1 + 1/2)) of what rolls, and (1 + e) v
    / (1 + sin^2 - mu sin cos) of what slides."""
    found = ist.simulate(struck(), ist.GeometricallyImplicit(), h=H, duration=3 * H)
    (step,) = np.flatnonzero(found.h == 0)
    s, c, (rolls, slides) = np.sin(TILTED), np.cos(TILTED), found.contacts.mu[step, [0, 2]]
    assert (rolls, slides) == (0.35, MU)
    P = (1 + REBOUND) * STRIKES / np.array([1 + s**2 / 1.5, 1 + s**2 - MU * s * c])
    np.testing.assert_allclose(found.contacts.normal_impulse[step], [c * P[0], P[0], c * P[1], P[1]], rtol=0, atol=1e-9)
    speeds = [P[0] * s / 1.5, P[1] * (s - MU * c)]
    np.testing.assert_allclose(found.velocity[step + 1, [0, 2], 0], speeds, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.velocity[step + 1, 0], [speeds[0], 0, -speeds[0] / 0.1], rtol=0, atol=1e-9)
    assert all(np.max(values) <= 1e-10 for values in found.certificate.values())
