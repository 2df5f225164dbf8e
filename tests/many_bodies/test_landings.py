"""Bodies with edges and faces that rebound among pairs that are found: against impulses in closed
form, and what counts as a landing."""

import dataclasses
import itertools

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.kinematics import Motion
from implicit_stepper.many_bodies import rebounds
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.landings import landings
from implicit_stepper.model.records import no_contacts

SPARSE = ist.GeometricallyImplicit(jacobian="sparse")
G, E = 9.81, 0.5
HALF, TILT = np.array([0.3, 0.2, 0.1]), 0.3


def one_box(gap, mu, velocity, gravity=0.0, tilt=TILT, law=ist.Newton):
    """A box of 1 kg with its lower edge at a height of `gap` above a floor; turned about y."""
    scene = ist.Scene(gravity=(0, 0, -gravity), **({} if gravity else {"acceleration_scale": 10.0}))
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    height = gap + np.sin(tilt) * HALF[0] + np.cos(tilt) * HALF[2]
    turned = (np.cos(tilt / 2), 0, np.sin(tilt / 2), 0)
    box = shapes.Box(tuple(HALF))
    scene.add_body(name="box", shape=box, mass=1.0, position=(0, 0, height), quaternion=turned, velocity=velocity)
    scene.add_contacts(friction=mu, restitution=law(E))
    return scene


def pushed(D, u, mu, after=None, normal=None):
    """The impulse (p_n, p_t) of a contact with the velocity u (v_n, v_t) and D, that sticks or else
    slips one way or the other: it parts with v_n = `after`, or has p_n = `normal`."""
    p_n = np.linalg.solve(D, [after - u[0], -u[1]])[0] if normal is None else normal
    p_t = -(u[1] + D[1, 0] * p_n) / D[1, 1]
    for way in (1.0, -1.0) if abs(p_t) > mu * p_n else ():
        p_n = (after - u[0]) / (D[0, 0] - way * mu * D[0, 1]) if normal is None else normal
        p_t = -way * mu * p_n
        if way * (u[1] + D[1] @ [p_n, p_t]) > 0:
            break
    return np.array([p_n, p_t])


def parts_from_an_edge(law, mu, v_x, tilt):
    """(v_x, v_z, omega_y) after the box falls on its edge with 1 m/s, turned by `tilt`."""
    a, c, inertia = HALF[0], HALF[2], (HALF[0] ** 2 + HALF[2] ** 2) / 3
    x, z = np.cos(tilt) * a - np.sin(tilt) * c, -np.sin(tilt) * a - np.cos(tilt) * c
    rows = np.array([[0, 1, -x], [1, 0, z]])  # v_n and v_t of the edge
    D, u = rows @ np.diag([1, 1, 1 / inertia]) @ rows.T, np.array([-1, v_x])
    if law is ist.Newton:
        impulse = pushed(D, u, mu, after=E)
    else:
        impulse = pushed(D, u, mu, after=0.0)
        impulse = impulse + pushed(D, u + D @ impulse, mu, normal=E * impulse[0])
    return np.array([v_x, -1, 0]) + np.array([1, 1, 1 / inertia]) * (rows.T @ impulse)


@pytest.mark.parametrize("law", [ist.Newton, ist.Poisson])
@pytest.mark.parametrize("gap", [0.021, 0.0299])  # closed early and late in a step
@pytest.mark.parametrize(("mu", "v_x"), [(0.0, 0.4), (0.05, 0.4), (0.3, 0.4), (0.3, -0.4), (0.3, -0.1)])
def test_an_edge_parts_by_one_law_wherever_in_the_step_it_lands(law, gap, mu, v_x):
    """What the step took of the impulse, and its friction, is part of the sum that obeys the law,
    at the pose to which the step has turned the box."""
    run = ist.simulate(one_box(gap, mu, (v_x, 0, -1, 0, 0, 0), law=law), SPARSE, h=0.01, duration=0.03)
    (hit,) = np.flatnonzero(run.h == 0.0)
    after, tilt = run.velocity[hit + 1, 0], 2 * np.arctan2(run.orientation[hit, 0, 2], run.orientation[hit, 0, 0])
    np.testing.assert_allclose(after[[0, 2, 4]], parts_from_an_edge(law, mu, v_x, tilt), rtol=0, atol=1e-11)
    np.testing.assert_allclose(after[[1, 3, 5]], 0.0, rtol=0, atol=1e-11)
    assert [(event.contact, event.kind) for event in run.events] == [(0, "closes")]
    assert max(np.max(values) for values in run.certificate.values()) < 1e-10


def test_a_box_that_falls_flat_rebounds_without_a_turn():
    """From .5 m: at e sqrt(2 g .5), to first order in h, and flat."""
    errors = []
    for h in (0.005, 0.0025):
        run = ist.simulate(one_box(0.5, 0.3, (0,) * 6, G, tilt=0.0), SPARSE, h=h, duration=0.5)
        (hit,) = np.flatnonzero(run.h == 0.0)
        errors.append(abs(run.velocity[hit + 1, 0, 2] - E * np.sqrt(G)))
        assert np.max(np.abs(run.velocity[:, 0, 3:])) < 1e-10
    assert errors[1] < 0.01
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.05)


def hit_off_its_middle():
    """A ball comes down on a box that stands, late in a step of 10 ms."""
    scene = ist.Scene(gravity=(0, 0, -G))
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_body(name="box", shape=shapes.Box(tuple(HALF)), mass=1.0, position=(0, 0, 0.1))
    place = (0.15, 0, 0.25 + 0.021)
    scene.add_body(name="ball", shape=shapes.Sphere(0.05), mass=0.5, position=place, velocity=(0, 0, -1, 0, 0, 0))
    scene.add_contacts(friction=0.3, restitution=ist.Newton(E))
    return ist.simulate(scene, SPARSE, h=0.01, duration=0.03)


def test_a_box_that_stands_does_not_tilt_where_a_ball_hits_it():
    """Late in a step little of the ball is stopped, and nothing tells where the floor will press:
    the step is halved, and the ball parts as from a wall."""
    run = hit_off_its_middle()
    (hit,) = np.flatnonzero(run.h == 0.0)
    assert np.min(run.h[:hit]) < 0.01
    assert np.max(np.abs(run.velocity[hit + 1, 0])) < 0.15
    assert run.velocity[hit + 1, 1, 2] == pytest.approx(E * np.sqrt(1 + 2 * G * 0.021), abs=0.01)


def test_the_last_halves_are_taken_as_they_are(monkeypatch):
    """As if others pushed together what lands, so that no step stops any of it."""
    monkeypatch.setattr(rebounds._Impact, "stopped", property(lambda impact: -0.1))
    run = hit_off_its_middle()
    assert np.min(run.h[run.h > 0]) == pytest.approx(0.01 / 16, rel=1e-12)
    assert run.time[-1] == pytest.approx(0.03, rel=1e-12)


def test_work_of_loads_on_bodies_that_others_hold_is_no_energy_from_nowhere():
    """One ball slides down a smooth incline while another lands with all of e."""
    scene = ist.Scene(gravity=(0, 0, -G))
    down = np.array([np.sin(0.5), 0, np.cos(0.5)])
    for name, normal in (("floor", (0, 0, 1)), ("incline", tuple(down))):
        scene.add_fixed(name=name, shape=shapes.HalfSpace(normal=normal, offset=0.0 if name == "floor" else -5.0))
    ball = shapes.Sphere(0.1)
    place = -5.0 * down + 0.1 * down + 50.0 * np.array([-down[2], 0, down[0]])
    scene.add_body(name="slides", shape=ball, mass=5.0, position=place, velocity=(2 * down[2], 0, -2 * down[0], 0, 0, 0))
    scene.add_body(name="lands", shape=ball, mass=1.0, position=(20, 0, 0.1 + 0.0102), velocity=(0, 0, -1, 0, 0, 0))
    scene.add_contacts(friction=0.0, restitution=ist.Newton(E))
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.03)
    (hit,) = np.flatnonzero(run.h == 0.0)
    assert run.stats.rung[hit] == 0
    met = np.sqrt(1 + 2 * G * 0.0102)
    assert run.velocity[hit + 1, 1, 2] == pytest.approx(E * met, abs=0.1 * G * 0.01)


def test_bodies_that_roll_on_their_bellies_do_not_strike():
    """However flat an ellipsoid is, whose point of contact runs ahead of it as it rocks."""
    scene = ist.Scene()
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    kinds = [shapes.Ellipsoid((0.3, 0.3, 0.03)), shapes.Sphere(0.1), shapes.Box((0.1,) * 3), shapes.Capsule(0.1, 0.2)]
    for k, shape in enumerate(kinds):
        scene.add_body(name=f"body {k}", shape=shape, mass=1.0, position=(k, 0, 1))
    scene.add_contacts(restitution=ist.Newton(E))
    system, _ = scene.build(contacts=False)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    pairs, _ = known.ordered(np.array([[k, 4] for k in range(4)]))
    sharp = known.sharp(pairs)
    assert {known.names[min(pair)]: bool(own) for pair, own in zip(pairs, sharp, strict=True)} == {
        "body 0": False, "body 1": False, "body 2": True, "body 3": True,
    }  # fmt: skip


def test_what_strikes_lands_and_what_rolls_does_not():
    """Boxes of which one rocks onto its other edge and one turns about the edge on which it stands,
    and a cylinder that rolls, all of which touched as the step began."""
    h, omega, r = 0.01, 2.0, 0.1
    # of the first box the edge at x = .1 came from above, of the second that at x = -.1 stayed
    turns = np.array([[np.cos(a / 2), 0, np.sin(a / 2), 0] for a in (-omega * h, -omega * h, -10 * h, 0)])
    rise = 0.2 * np.sin(omega * h)
    start = np.array([[-0.1 + 0.1 * np.cos(omega * h) - r * np.sin(omega * h), 0, rise / 2 + r * np.cos(omega * h)]] * 2)
    start = np.concatenate([start, [[-10 * h * r, 0, r], [0, 0, 0]]])
    spin = np.array([[0, 0, 0, 0, omega, 0]] * 2 + [[10 * r, 0, 0, 0, 10, 0], [0] * 6], float)
    before = Motion(start, turns, spin)
    after = Motion(np.array([[0, 0, r]] * 3 + [[0, 0, 0]]), np.array([[1.0, 0, 0, 0]] * 4), spin)
    points = np.array([[0.1, 0, 0], [-0.1, 0, 0], [0, 0, 0]])
    ends, m = {"point_1": points, "point_2": points, "normal": np.array([[0, 0, -1.0]] * 3)}, np.zeros(3)
    touch = dataclasses.replace(no_contacts(3), normal_impulse=m + 1, gap=m, gap_start=m, **ends)
    sides = np.array([[0, 3], [1, 3], [2, 3]])
    speed = np.array([-omega * 0.2, 0.0, -10 * 10 * h * r])  # of a point that comes down as it rolls
    landed, gaps = landings(np.ones(3, bool), touch, sides, (before, after), speed, (0.1, G), h, first=False)
    assert list(landed) == [True, False, False]
    assert gaps[0] == pytest.approx(rise, rel=1e-12)
    assert gaps[1] == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("law", [ist.Newton, ist.Poisson])
@pytest.mark.parametrize("gap", [0.0, 1e-9])
def test_what_touches_as_a_run_begins_rebounds_if_it_approaches(law, gap):
    """Three discs in a row, of which the first comes: all at once for e = 1, -1/3, 2/3, 2/3; and a
    pair, apart from them, by its own e; the step closes gaps by gap / h. What rolls on beside them
    does not."""
    scene = ist.Scene(dimension=2, gravity=(0, 0), length_scale=1.0, acceleration_scale=10.0)

    def row(name, count, y, **contact):
        discs = []
        for k in range(count):
            at = {"position": ((1 + gap) * k, y), "velocity": (float(k == 0), 0, 0)}
            discs.append(scene.add_body(name=f"{name} {k}", shape=shapes.Disc(0.5), mass=1.0, **at))
        for pair in itertools.pairwise(discs):
            scene.add_contact(*pair, **contact)

    row("three", 3, 0.0, restitution=law(1.0))
    row("two", 2, 5.0, restitution=law(0.5))
    ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1), offset=-9.0))
    wheel = scene.add_body(
        name="wheel", shape=shapes.Disc(0.5), mass=1.0, position=(0, -8.5), velocity=(2, 0, -4), wrench=(0, -G, 0)
    )
    scene.add_contact(ground, wheel, friction=0.5, restitution=law(1.0))
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.05)
    parted = [-1 / 3, 2 / 3, 2 / 3, 0.25, 0.75, 2.0]
    np.testing.assert_allclose(run.velocity[-1, :, 0], parted, rtol=0, atol=1e-10 + gap / 0.01)
    np.testing.assert_allclose(run.velocity[:, 5, 1], 0.0, rtol=0, atol=1e-10)
    assert [event.time for event in run.events] == [0.01] * 2  # the last of the three was not approached
    again = ist.simulate(scene, SPARSE, h=0.01, duration=0.05, start=run)
    assert again.events == ()
