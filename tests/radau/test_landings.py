"""Restitution in steps of given length: what lands in one and rebounds, against closed forms; what
ends; what no run may have; and what is refused."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import implicit_stepper as ist
import shapes
from implicit_stepper.radau import rebounds
from implicit_stepper.radau.euler_steps import rolling
from implicit_stepper.radau.impact_certificate import impact_violations

G, E = 9.81, 0.9


def ball(law, drop=1.0, velocity=(0.0, 0.0, 0.0)):
    """A disc of 1 kg with its lowest point `drop` [m] above a floor."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    falls = scene.add_body(name="ball", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.1 + drop), velocity=velocity)
    scene.add_contact(floor, falls, friction=0.3, restitution=law)
    return scene


def run(scene, h, duration, **settings):
    return ist.simulate(scene, ist.GeometricallyImplicit(**settings), h=h, duration=duration)


def tops(found, count):
    """The heights [m] between the first impacts, and the times [s] of these."""
    times = [event.time for event in found.events]
    flights = [(found.time >= a) & (found.time <= b) for a, b in zip(times[:count], times[1:], strict=False)]
    return np.array([np.max(found.position[flight, 0, 1]) - 0.1 for flight in flights]), np.array(times[: count + 1])


def test_a_ball_bounces_as_the_closed_form_says_to_first_order():
    """Heights e^2n of the drop, and times of impacts, err by c h."""
    fall, number = np.sqrt(2 / G), np.arange(1, 4)
    exact = fall + 2 * fall * np.cumsum(E ** np.arange(4)) - 2 * fall
    off = []
    for h in (0.01, 0.005, 0.0025, 0.00125):
        heights, times = tops(run(ball(ist.Newton(E)), h, 3.0), 3)
        off.append(np.concatenate([heights - E ** (2 * number), times - exact]))
    ratios = np.array(off[:-1]) / off[1:]
    assert np.all((ratios > 1.9) & (ratios < 2.1))
    assert np.max(np.abs(off[-1])) < 0.015


@pytest.mark.parametrize("law", [ist.Newton, ist.Poisson])
def test_an_impact_is_exact_at_the_velocities_that_the_step_lands_with(law):
    """It is a step of no length between one that ends where the bodies touch and the rest: the
    discs part with e times the speed of approach, all times of given steps are kept, and each part
    passes the certificate of its own equations, made anew."""
    scene, h = ball(law(E)), 0.01
    found = run(scene, h, 0.6)
    (step,) = np.flatnonzero(found.h == 0)
    assert (found.events[0].kind, found.events[0].time) == ("closes", found.time[step])
    assert 0 <= found.contacts.gap[step - 1, 0] <= 1e-8
    before, after = found.velocity[step, 0, 1], found.velocity[step + 1, 0, 1]
    assert before < -4
    assert after == pytest.approx(-E * before, abs=1e-11)
    assert found.contacts.normal_impulse[step, 0] == pytest.approx(-(1 + E) * before, abs=1e-11)
    assert np.max(np.min(np.abs(found.time[:, None] - h * np.arange(61)), axis=0)) < 1e-14
    system, _ = scene.build()
    states = [ist.State(found.time[i], found.position[i], found.orientation[i], found.velocity[i]) for i in (step, step + 1)]
    record = jax.tree.map(lambda a: a[step], found.contacts)
    held = impact_violations(system, *states, record)
    assert max(float(np.max(values)) for values in held.values()) <= 1e-10
    assert all(np.max(values) <= 1e-10 for values in found.certificate.values())


@pytest.mark.parametrize(
    ("law", "impacts"), [(ist.Newton, "simultaneous"), (ist.Poisson, "simultaneous"), (ist.Newton, "sequential")]
)
@pytest.mark.parametrize("gaps", [(0.002, 0.006), (0.006, 0.002), (1e-8, 0.006)])
def test_what_lands_in_one_step_rebounds_each_in_its_turn(law, impacts, gaps):
    """Two discs, 3 m from each other, that come down at 1 m/s: each has e times the speed with
    which it meets the floor, less what it loses on its way up, to the order of h."""
    scene, h, end = ist.Scene(dimension=2, gravity=(0, -G)), 0.01, 0.03
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    for x, gap in zip((0, 3), gaps, strict=True):
        disc = scene.add_body(name=f"at {x}", shape=shapes.Disc(0.1), mass=1.0, position=(x, 0.1 + gap), velocity=(0, -1, 0))
        scene.add_contact(floor, disc, restitution=law(0.8))
    found = run(scene, h, end, impacts=impacts)
    fast = np.sqrt(1 + 2 * G * np.array(gaps))
    times = (fast - 1) / G
    order = np.argsort(gaps)
    assert [event.contact for event in found.events] == order.tolist()
    # the scheme falls g h t / 2 farther in the time t
    early = G * h * times / (2 * fast) + 1e-8
    assert np.all(np.abs(np.array([event.time for event in found.events]) - times[order]) <= early[order])
    assert np.all(np.abs(found.velocity[-1, :, 1] - 0.8 * fast + G * (end - times)) <= (1 + 0.8) * G * early)


@pytest.mark.parametrize("jacobian", ["by size", "sparse"])
@pytest.mark.parametrize("mu_s", [None, 0.4])
def test_an_impact_is_recorded_with_the_slip_that_it_leaves(jacobian, mu_s):
    """A disc that slides and spins as it lands sticks, for m r^2 / I = 2, by a third of the
    slip."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    disc = scene.add_body(
        name="disc", shape=shapes.Disc(0.1), mass=1.0, inertia=0.005, position=(0, 0.12), velocity=(1, -1, 3)
    )
    scene.add_contact(floor, disc, friction=ist.FrictionEllipsoid(0.3, mu_s=mu_s), restitution=ist.Newton(0.8))
    found = run(scene, 0.01, 0.04, jacobian=jacobian)
    (impact,) = np.flatnonzero(found.h == 0)
    np.testing.assert_allclose(found.velocity[-1, 0, [0, 2]], [1 - 1.3 / 3, 3 - 2 * 1.3 / 0.3], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.contacts.slip[impact], 0.0, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.contacts.sigma[impact], 0.0, rtol=0, atol=1e-9)
    states, changes = ist.contact_states(scene, found)
    assert states[impact, 0] == "stick"
    # where pairs are found, the step has landed the disc, which slips at its end
    between = ["sticks"] if jacobian == "sparse" else []
    assert [change.kind for change in changes] == ["closes", *between, "opens"]
    if jacobian == "sparse":
        with pytest.raises(ValueError, match="found its pairs step by step"):
            ist.sensitivities(scene, ist.GeometricallyImplicit(jacobian="sparse"), found, ["mu"])


def test_repeated_rebounds_end_and_the_ball_rests():
    """Flights shorter than a step end in it. The closed form rests after (1 + e) / (1 - e) times
    the first fall."""
    found = run(ball(ist.Newton(0.5)), 0.01, 2.0)
    last, fall = found.events[-1].time, np.sqrt(2 / G)
    assert len(found.events) < 10
    assert last < 3 * fall
    rests = found.time > 3 * fall
    np.testing.assert_allclose(found.position[rests, 0, 1], 0.1, rtol=0, atol=1e-12)
    assert np.max(np.abs(found.velocity[rests])) < 1e-14


def test_a_run_that_begins_with_an_impact_begins_with_that():
    found = run(ball(ist.Newton(0.5), drop=0.0, velocity=(0, -1, 0)), 0.01, 0.02)
    np.testing.assert_allclose(found.time, [0, 0, 0.01, 0.02], rtol=0, atol=1e-15)
    np.testing.assert_allclose(found.velocity[:, 0, 1], [-1, 0.5, 0.5 - 0.01 * G, 0.5 - 0.02 * G], rtol=0, atol=1e-12)
    assert found.events == ((0.0, 0, "closes"),)


def test_a_run_that_goes_on_begins_with_no_impact_but_one_that_is_due():
    """What was closed as its last step began keeps the speed that the scheme leaves it, as it does
    within a run; what landed in it and is cut off before its impact rebounds."""
    scene, stepper, how = ball(ist.Newton(0.5), drop=0.02), ist.GeometricallyImplicit(), {"h": 0.01, "duration": 0.01}
    rests = run(ball(ist.Newton(0.5), drop=0.0), 0.01, 0.02)
    velocity = rests.velocity.copy()
    velocity[-1, 0, 1] = -1.0
    approaches = dataclasses.replace(rests, velocity=velocity)
    on = ist.simulate(scene, stepper, start=approaches, **how)
    assert on.events == ()
    np.testing.assert_allclose(on.velocity[1:], 0, rtol=0, atol=1e-12)
    found = run(scene, 0.01, 0.1)
    hit = int(np.argmin(found.h))
    for cut, events in ((hit, ((found.time[hit], 0, "closes"),)), (hit + 1, ())):
        on = ist.simulate(scene, stepper, start=found[:cut], **how)
        assert on.events == events
        np.testing.assert_allclose(on.velocity[len(events), 0], found.velocity[hit + 1, 0], rtol=0, atol=1e-12)


SPIN, SPUN_DROP = 100.0, 0.2  # [rad/s, m]: the ball slides in its first three impacts


def spun(h, steps, e, mu, drop):
    """Steps of h [s] of the ball that falls with a `SPIN`, in closed form: (x, height, v_x, v_y)
    after them, and the times [s] of its impacts."""
    x, y, v_x, v_y, time, impacts = 0.0, drop, 0.0, 0.0, 0.0, []
    for _ in range(steps):
        left = h
        while np.real(y + left * (v_y - G * left)) < 0:
            part = (v_y + np.sqrt(v_y**2 + 4 * G * y)) / (2 * G)
            x, y, v_y, time, left = x + part * v_x, 0.0, v_y - G * part, time + part, left - part
            impacts.append(time)
            v_x, v_y = v_x + mu * (1 + e) * v_y, -e * v_y
        x, y, v_x, v_y, time = x + left * v_x, y + left * (v_y - G * left), v_x, v_y - G * left, time + left
    return np.array([x, y, v_x, v_y]), np.array(impacts)


def test_rebounds_have_the_derivatives_of_the_closed_form():
    """Of positions and velocities by restitution, friction and height, and of the times of impacts;
    by steps in the complex plane."""
    h, steps, stepper = 0.01, 48, ist.GeometricallyImplicit()
    scene = ball(ist.Newton(0.5), SPUN_DROP, velocity=(0, 0, SPIN))
    found = run(scene, h, steps * h)
    assert len(found.events) == 3
    own = ist.sensitivities(scene, stepper, found, ["restitution", "mu", "position"])
    at = [int(np.argmin(np.abs(found.time - event.time))) for event in found.events]
    for number, (name, place) in enumerate({"restitution": (0,), "mu": (0,), "position": (0, 1)}.items()):
        values = np.array([0.5, 0.3, SPUN_DROP]) + 1e-30j * (np.arange(3) == number)
        exact = [np.imag(a) / 1e-30 for a in spun(h, steps, *values)]
        end = [getattr(own[name], field)[(-1, 0, axis, *place)] for field in ("position", "velocity") for axis in (0, 1)]
        np.testing.assert_allclose(end, exact[0], rtol=1e-6, atol=1e-7)  # a gap of an impact is within 1e-8 m
        np.testing.assert_allclose([own[name].time[(node, *place)] for node in at], exact[1], rtol=1e-6, atol=1e-7)


def test_a_fall_in_which_nothing_has_landed_has_derivatives_by_h_too():
    """y_n = y_0 - g h^2 n (n + 1) / 2 and t_n = n h; derivatives of a root are damped by 1e-12."""
    h, n = 0.01, 6
    scene = ball(ist.Newton(0.5))
    found = run(scene, h, n * h)
    own = ist.sensitivities(scene, ist.GeometricallyImplicit(), found, ["position", "h", "mu"])
    steps = np.arange(n + 1)
    np.testing.assert_allclose(own["h"].position[:, 0, 1], -G * h * steps * (steps + 1), rtol=0, atol=1e-11)
    np.testing.assert_allclose(own["h"].time, steps, rtol=0, atol=1e-11)
    np.testing.assert_allclose(own["position"].position[:, 0, 1, 0, 1], 1.0, rtol=0, atol=1e-11)


def test_a_batch_of_scenes_that_rebound_is_their_runs():
    """To the bit; and what cannot be is refused."""
    e, settings = np.array([0.0, 0.5, 0.9]), {"h": 0.01, "duration": 0.6}
    many = ist.simulate_batch(ball(ist.Newton(E)), ist.GeometricallyImplicit(), parameters={"restitution": e}, **settings)
    assert np.all(many.result == ist.Result.SOLVED)
    assert np.all(many.steps == 60)
    assert np.max(many.violation) <= 1e-10
    for i, share in enumerate(e):
        np.testing.assert_array_equal(many.end.velocity[i], run(ball(ist.Newton(share)), **settings).end.velocity)
    assert np.all(np.diff(many.end.velocity[:, 0, 1]) > 0.5)
    with pytest.raises(ValueError, match=r"'restitution' = 1.1 in scene 1: it must be in \[0, 1\]"):
        ist.simulate_batch(
            ball(ist.Newton(E)), ist.GeometricallyImplicit(), parameters={"restitution": [0.1, 1.1]}, **settings
        )


def test_a_scene_that_fails_in_a_batch_is_flagged_where_it_fails(monkeypatch):
    """The others are as they are; its state is that before the impact, which is not certified."""
    certify = rebounds.impact_violations

    def doubted(system, before, *rest):
        found = certify(system, before, *rest)
        return {name: values + (float(np.abs(before.velocity[0, 1])) > 4.5) for name, values in found.items()}

    monkeypatch.setattr(rebounds, "impact_violations", doubted)
    start = ball(ist.Newton(E)).build()[1].position
    places = np.stack([start, start + np.array([0.0, 0.2])])
    settings = {"h": 0.01, "duration": 0.6, "parameters": {"position": places}}
    many = ist.simulate_batch(ball(ist.Newton(E)), ist.GeometricallyImplicit(), **settings)
    np.testing.assert_array_equal(many.result, [ist.Result.SOLVED, ist.Result.NOT_CERTIFIED])
    assert (many.steps[0], many.steps[1]) == (60, 48)
    assert many.end.position[1, 0, 1] > 0.1
    assert many.end.velocity[1, 0, 1] < -4.5


def test_an_impact_that_fails_at_the_start_leaves_a_run_of_no_steps(monkeypatch):
    monkeypatch.setattr(rebounds, "impact_violations", lambda *_: {"energy": np.array([0.5])})
    scene, how = ball(ist.Newton(0.5), drop=0.0, velocity=(0, -1, 0)), {"h": 0.01, "duration": 0.02}
    found = ist.simulate(scene, ist.GeometricallyImplicit(), on_failure="return", **how)
    assert (len(found), found.events) == (0, ())
    with pytest.raises(ist.StepError, match=r"the step to t = 0 s failed: its impact violates energy 5.00e-01") as stopped:
        ist.simulate(scene, ist.GeometricallyImplicit(), **how)
    assert len(stopped.value.trajectory) == 0
    assert (stopped.value.result, list(stopped.value.certificate)) == (ist.Result.NOT_CERTIFIED, ["energy"])
    np.testing.assert_array_equal(stopped.value.state.velocity, [[0, -1, 0]])
    many = ist.simulate_batch(scene, ist.GeometricallyImplicit(), parameters={"restitution": [0.5]}, **how)
    assert (many.result[0], many.steps[0]) == (ist.Result.NOT_CERTIFIED, 0)


def cradle():
    """Five discs of 1 kg in a row, without weight, of which the first one meets the others at 1
    m/s after .133 s; and a sixth that falls on its own."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    disc = {"shape": shapes.Disc(0.1), "mass": 1.0}
    places = [-0.333, *(0.2 * np.arange(1, 5))]
    balls = [
        scene.add_body(name=f"ball {i}", position=(x, 0), velocity=(float(i == 0), 0, 0), wrench=(0, G, 0), **disc)
        for i, x in enumerate(places)
    ]
    scene.add_body(name="beside", position=(0, 5), **disc)
    for one, other in zip(balls, balls[1:], strict=False):
        scene.add_contact(one, other, restitution=ist.Newton(1.0))
    return scene


@pytest.mark.parametrize(
    ("impacts", "speeds"), [("sequential", (0, 0, 0, 0, 1)), ("simultaneous", (-0.6, 0.4, 0.4, 0.4, 0.4))]
)
def test_a_cradle_passes_on_what_comes(impacts, speeds):
    """One after another, one ball on; all at once, as energy and momentum of two say whose masses
    are 1 and 4. What has no part in it falls on as without it."""
    found = run(cradle(), 0.01, 0.5, impacts=impacts)
    np.testing.assert_allclose(found.velocity[-1, :5, 0], speeds, rtol=0, atol=1e-12)
    assert found.velocity[-1, 5, 1] == pytest.approx(-0.5 * G, abs=1e-12)
    (closes,) = found.events
    assert closes.time == pytest.approx(0.333, abs=1e-8)


@pytest.mark.parametrize("law", [ist.Newton, pytest.param(ist.Poisson, marks=pytest.mark.thorough)])
def test_a_box_that_falls_flat_leaves_the_floor_flat(law):
    """At its centre of pressure, without friction, to e times its speed and no spin."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    box = scene.add_body(name="box", shape=shapes.Box((0.3, 0.2, 0.1)), mass=1.0, position=(0, 0, 0.3))
    scene.add_contact(floor, box, restitution=law(0.5))
    found = run(scene, 0.005, 0.8)
    (first, *_) = np.flatnonzero(found.h == 0)
    np.testing.assert_allclose(found.velocity[first + 1], -0.5 * found.velocity[first], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.position[-1], [[0, 0, 0.1]], rtol=0, atol=1e-12)
    assert np.max(np.abs(found.velocity[-1])) < 1e-12


def rod(law, velocity):
    """A rod that comes down at an angle on rough ground."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
    shape = shapes.Ellipse((1.0, 0.1))
    body = scene.add_body(name="rod", shape=shape, mass=1.0, inertia=0.3, position=(0, 1.2), angle=0.9, velocity=velocity)
    scene.add_contact(ground, body, friction=0.6, restitution=law(1.0))
    return scene


def test_newton_with_friction_may_raise_energy_and_is_an_error_and_poisson_does_not():
    """Over throws of a rod: an impact by Newton's law that raises energy is never part of a
    trajectory; by Poisson's all runs go on, and no step of no length raises any."""
    gained, throws = 0, [(speed, -2.0, spin) for speed in (-3.0, -1.0, 1.0, 3.0) for spin in (-3.0, 3.0)]
    for throw in throws:
        try:
            found = run(rod(ist.Newton, throw), 0.01, 0.5)
        except ist.StepError as error:
            assert "can raise energy" in str(error)  # noqa: PT017
            assert error.certificate["energy"] > 1e-10  # noqa: PT017
            gained += 1
            found = error.trajectory
        else:
            assert np.any(found.h == 0)
        assert np.max(found.certificate.get("energy", 0.0), initial=0.0) <= 1e-10
        found = run(rod(ist.Poisson, throw), 0.01, 0.5)
        kinetic, impacts = found.kinetic_energy(), np.flatnonzero(found.h == 0)
        assert len(impacts)
        assert np.all(kinetic[impacts + 1] <= kinetic[impacts] * (1 + 1e-10))
    assert 0 < gained < len(throws)


def test_a_pendulum_hits_a_wall_and_its_pin_holds():
    """A bar on a pin swings into a wall and back with e times its spin; the reaction of the pin is
    in the impact, so that the bar's moment about it is what the wall gives."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    wall = scene.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(-1, 0), offset=0.0))
    start = {"position": (-0.1 - 0.5 * np.sin(1.0), -0.5 * np.cos(1.0)), "angle": -1.0}
    bob = scene.add_body(name="bob", shape=shapes.Disc(0.1), mass=1.0, inertia=0.005, **start)
    scene.add_joint(wall, bob, ist.BallJoint((-0.1, 0), (0, 0.5)), name="pin")
    scene.add_contact(wall, bob, restitution=ist.Newton(0.8))
    found = run(scene, 0.005, 0.6)
    first = int(np.argmin(found.h))
    before, after = found.velocity[first : first + 2, 0]
    assert after[0] == pytest.approx(-0.8 * before[0], abs=1e-11)
    assert after[0] == pytest.approx(0.5 * after[2], abs=1e-11)  # the pin is closed
    moment = 0.5 * (after[0] - before[0]) + 0.005 * (after[2] - before[2])
    assert found.contacts.normal_impulse[first, 0] * 0.5 == pytest.approx(-moment, abs=1e-11)
    assert np.max(np.abs(found.joints.closure)) < 1e-9


def test_a_run_goes_on_from_a_checkpoint_to_the_bit(tmp_path):
    """Killed after it has written one, at an impact."""
    scene, path = ball(ist.Newton(E)), tmp_path / "run"
    whole = run(scene, 0.01, 1.5)
    settings = {"h": 0.01, "duration": 1.5, "checkpoint": path, "every": 0.0}
    ist.simulate(scene, ist.GeometricallyImplicit(), **settings)
    again = ist.simulate(scene, ist.GeometricallyImplicit(), **settings, resume=path)
    for one in (dataclasses.replace(whole, origin=None), dataclasses.replace(again, origin=None)):
        assert one.events == whole.events
        np.testing.assert_array_equal(one.velocity, whole.velocity)
        np.testing.assert_array_equal(one.h, whole.h)


def test_what_has_no_rebounds_refuses_them():
    """Steps by hand, derivatives by h, other steppers, pairs one after another with
    faces, and least forces of an impact."""
    scene = ball(ist.Newton(E))
    found = run(scene, 0.01, 0.6)
    for stepper in (ist.RadauContact(), ist.Convex(), ist.ClosedFormGap(), ist.Linearized()):
        with pytest.raises(ValueError, match="floor and ball have a `restitution`, which only runs of `simulate` know"):
            ist.simulate(scene, stepper, h=0.01, duration=0.1)
    with pytest.raises(ValueError, match="have a `restitution`"):
        ist.GeometricallyImplicit().init(*scene.build())
    with pytest.raises(ValueError, match="steps of several lengths, of which `h` is no parameter"):
        ist.sensitivities(scene, ist.GeometricallyImplicit(), found, ["mu", "h"])
    with pytest.raises(ValueError, match="is an impact: take the steps before and after"):
        ist.least_forces(scene, ist.GeometricallyImplicit(), found)
    faces = ist.Scene()
    floor = faces.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    box = faces.add_body(name="box", shape=shapes.Box((0.1, 0.1, 0.1)), mass=1.0, position=(0, 0, 1))
    faces.add_contact(floor, box, restitution=ist.Newton(E))
    with pytest.raises(ValueError, match="bodies of one smooth inequality"):
        ist.simulate(faces, ist.GeometricallyImplicit(impacts="sequential"), h=0.01, duration=0.1)


HALF, TILT = (0.1, 0.05), 0.02  # [m, rad]


def block(law, half, angle, height, friction):
    """A block of 1 kg over a floor, its centre at `height` [m]."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    shape = shapes.Polygon([(x * half[0], y * half[1]) for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))])
    falls = scene.add_body(name="block", shape=shape, mass=1.0, position=(0, height), angle=angle)
    scene.add_contact(floor, falls, friction=friction, restitution=law)
    return scene


def at_corners(height, e, count):
    """The velocities (count, 2) [m/s, rad/s] after the first impacts of the block without friction:
    flights in closed form, and an impulse at the corner that comes down first."""
    inertia, state, found = (HALF[0] ** 2 + HALF[1] ** 2) / 3, np.array([height, TILT, 0.0, 0.0]), []
    corners = [(-HALF[0], -HALF[1]), (HALF[0], -HALF[1])]

    def gaps(s):
        turned = state[1] + state[3] * s
        return [state[0] + state[2] * s - G * s**2 / 2 + x * np.sin(turned) + y * np.cos(turned) for x, y in corners]

    while len(found) < count:
        grid = np.linspace(1e-9, 0.3, 100_001)
        first = int(np.argmax(np.min(gaps(grid), axis=0) < 0))
        s = scipy.optimize.brentq(lambda s: np.min(gaps(s)), grid[first - 1], grid[first], xtol=1e-15)
        x, y = corners[int(np.argmin(gaps(s)))]
        state = np.array([state[0] + state[2] * s - G * s**2 / 2, state[1] + state[3] * s, state[2] - G * s, state[3]])
        arm = x * np.cos(state[1]) - y * np.sin(state[1])
        impulse = -(1 + e) * (state[2] + arm * state[3]) / (1 + arm**2 / inertia)
        state[2:] += impulse, arm * impulse / inertia
        found.append(state[2:].copy())
    return np.array(found)


@pytest.fixture
def compiled():
    """The names of programs, as they are compiled."""
    names = []

    def note(event, duration, fun_name="", **more):
        if event.endswith("/backend_compile_duration"):
            names.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(note)
    yield names
    jax.monitoring.unregister_event_duration_listener(note)


def test_a_block_rebounds_from_each_corner_that_comes_down_in_a_step(compiled):
    """Nearly flat, from one corner, the other, and the first again within 3 ms: as flights and
    impulses say, to first order in h, whichever of these share a step; and every part of a step is
    solved by the program of the whole one."""
    exact, off = at_corners(0.2, 0.6, 3), []
    for h in (0.01, 0.005, 0.0025):
        found = run(block(ist.Newton(0.6), HALF, TILT, 0.2, 0.0), h, 0.2)
        impacts = np.flatnonzero(found.h == 0)[:3]
        off.append(found.velocity[impacts + 1, 0, 1:] - exact)
    ratios = np.array(off[:-1]) / off[1:]
    assert np.all((ratios > 1.8) & (ratios < 2.2))
    assert compiled.count("jit(_march)") <= 1  # none, if another test has compiled it


@pytest.mark.parametrize("law", [ist.Newton, ist.Poisson])
def test_a_block_that_falls_over_rebounds_about_the_corner_on_which_it_stands(law):
    """It rests on one corner as the other one strikes: an impulse between them leaves that corner
    where it is. By Newton's law the spin is -e times that before; by Poisson's, the other corner
    parts with e times its speed or faster, and nothing is pressed into the floor."""
    half, angle, e = (0.2, 0.05), 0.8, 0.5
    height = half[0] * np.sin(angle) + half[1] * np.cos(angle)
    found = run(block(law(e), half, angle, height, 0.8), 0.005, 0.5)
    first = int(np.argmin(found.h))
    before, after = found.velocity[first : first + 2, 0]
    stands, strikes = after[1] - half[0] * after[2], after[1] + half[0] * after[2]
    came = before[1] + half[0] * before[2]
    assert came < -2
    assert strikes >= -e * came * (1 - 1e-12)
    if law is ist.Newton:
        assert after[2] == pytest.approx(-e * before[2], rel=1e-12)
    else:
        assert abs(stands) < 1e-6
    assert max(float(np.max(values)) for values in found.certificate.values()) < 1e-10


def cushion(p, restitution=None, R=0.1, tilt=0.25):
    """(x/R)^p + (y/R)^p <= 1 that touches the floor, tilted, and falls onto its side."""
    scene, q = ist.Scene(dimension=2), p / (p - 1)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    height = R * (np.sin(tilt) ** q + np.cos(tilt) ** q) ** (1 / q)
    shape = shapes.ImplicitShape([(shapes.x / R) ** p + (shapes.y / R) ** p - 1], dimension=2)
    at = {"position": (0, height), "angle": tilt}
    body = scene.add_body(name="cushion", shape=shape, mass=1.0, inertia=0.004, **at)
    scene.add_contact(body, floor, friction=0.9, restitution=restitution)
    return scene


@pytest.mark.parametrize(("p", "how"), [(8, {"h": 1e-3}), pytest.param(4, {"tol": 1e-6}, marks=pytest.mark.thorough)])
def test_what_rolls_over_a_side_that_is_all_but_flat_does_not_strike_it(p, how):
    """Its point runs along the side, ever faster, and no gap opens that could close. A law of
    impact is no matter there, however fast the side comes down elsewhere. With one, steps of h
    struck there, and chosen steps ended in an error."""
    stepper = ist.GeometricallyImplicit() if "h" in how else ist.RadauContact()
    scenes_of = (cushion(p), cushion(p, ist.Newton(0.8)))
    plain, struck = (ist.simulate(scene, stepper, duration=0.16, progress=False, **how) for scene in scenes_of)
    assert np.any(np.diff(np.sign(plain.orientation[:, 0, 0])))  # it has come over the middle of its side
    if "h" in how:
        assert not struck.events
    # steps of first order among chosen ones may be off by 100 tol, of speeds in sqrt(g / R)
    np.testing.assert_allclose(struck.velocity[-1], plain.velocity[-1], rtol=0, atol=1e-12 if "h" in how else 1e-3)


@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_what_rolls_over_a_side_that_is_all_but_flat_says_what_that_took(tol):
    """It rolls without slip: (I + m (H^2 + H'^2)) theta'^2 / 2 + m g H would stay, where the
    support function H is the height. Its force has no bound over the middle of the side, where a
    step of first order takes some of it, however short by any other measure."""
    p, R, m, inertia, q = 4, 0.1, 1.0, 0.004, 4 / 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ist.simulate(cushion(p), ist.RadauContact(), duration=0.16, progress=False, tol=tol)
    theta, spin = found.orientation[:, 0, 0], found.velocity[:, 0, 2]
    s, c = np.abs(np.sin(theta)), np.abs(np.cos(theta))
    S = s**q + c**q
    H = R * S ** (1 / q)
    slope = R * S ** (1 / q - 1) * (s ** (q - 1) * c - c ** (q - 1) * s)
    moving = (inertia + m * (H**2 + slope**2)) * spin**2 / 2
    energy = moving + m * G * H
    assert np.any(np.diff(np.sign(theta)))
    (told,) = [str(one.message) for one in caught if issubclass(one.category, ist.errors.AccuracyWarning)]
    middle = int(np.argmin(energy[1:] - energy[:-1]))
    unit = moving[middle] + m * G * float(cushion(p).build()[0].length)
    assert float(told.split("took ")[1].split()[0]) == pytest.approx((energy[0] - energy[-1]) / unit, rel=0.1)


def test_contacts_of_round_bodies_are_told_whatever_they_are_compiled_with():
    """A sphere and a superquadric on a floor share a program; a capsule on a floor has no round
    body, and a sphere on a box has one."""
    scene, kinds = ist.Scene(), {"floor": shapes.HalfSpace(normal=(0, 0, 1)), "box": shapes.Box((0.1, 0.1, 0.1))}
    kinds |= {"capsule": shapes.Capsule(0.1, 0.2), "sphere": shapes.Sphere(0.1)}
    kinds |= {"superquadric": shapes.Superquadric((0.1, 0.1, 0.1), epsilon=(0.5, 0.5))}
    bodies = {name: scene.add_body(name=name, shape=s, mass=1.0, position=(0, 0, 1)) for name, s in [*kinds.items()][1:]}
    bodies["floor"] = scene.add_fixed(name="floor", shape=kinds["floor"])
    pairs = [("sphere", "floor"), ("capsule", "floor"), ("box", "floor"), ("superquadric", "floor"), ("box", "sphere")]
    for one, other in pairs:
        scene.add_contact(bodies[one], bodies[other], friction=0.3)
    system, _ = scene.build()
    assert "Sphere or Superquadric" in [group.pair.first.name for group in system.groups]
    np.testing.assert_array_equal(rolling(system), [True, False, False, True, True])


def test_a_plate_that_is_told_to_rise_throws_a_disc_by_either_law():
    """The step before the impact leaves the plate slower than it is told. By Poisson's law the disc
    parts with e times the speed at which the told plate meets it, by Newton's at which the step
    does; energy that the drive gives is none that the law raises."""
    h, lift = 0.01, 100.0
    for law in (ist.Newton, ist.Poisson):
        scene = ist.Scene(dimension=2, gravity=(0, -G))
        plate = scene.add_moving(
            name="plate", shape=shapes.HalfPlane(normal=(0, 1)), mass=1.0, inertia=1.0,
            pose=lambda t: (jnp.array([0.0, lift * t**2 / 2]), jnp.zeros(1)),
        )  # fmt: skip
        disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.13), velocity=(0, -1, 0))
        scene.add_contact(plate, disc, friction=0.3, restitution=law(E))
        found = run(scene, h, 0.03)
        (impact,) = np.flatnonzero(found.h == 0)
        told = lift * found.time[impact]
        (stepped, before), after = found.velocity[impact, :, 1], found.velocity[impact + 1, 1, 1]
        assert told - stepped > 0.1
        met = told if law is ist.Poisson else stepped
        np.testing.assert_allclose(after, told + E * (met - before), rtol=0, atol=1e-9)
