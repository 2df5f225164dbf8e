"""Bodies that rock: rebounds at the rims of their faces and at centres of pressure within them,
where a contact strikes at another point than that at which it touched; against closed forms."""

import dataclasses

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.detection import closest_points
from implicit_stepper.radau import face_rebounds, impact
from implicit_stepper.runtime.compilation import jit

G, E, SLOPE = 9.81, 0.5, 0.1
TALL, WIDE = (0.1, 0.3), (0.3, 0.1)  # half sizes [m]
meet_at = jit(lambda system, state, closest: impact.meet(system, state, closest)[0], once=True)
LAWS = pytest.mark.parametrize("law", [ist.Newton, ist.Poisson])


def block(half, law, mu, drop=0.0, slope=SLOPE):
    """A block of 1 kg in the plane that stands on its lower left corner, or `drop` [m] above it."""
    scene, (a, b) = ist.Scene(dimension=2, gravity=(0, -G)), half
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    shape = shapes.Polygon([(x * a, y * b) for x in (-1, 1) for y in (-1, 1)])
    height = a * np.sin(slope) + b * np.cos(slope) + drop
    pose = {"position": (0, height), "angle": slope}
    body = scene.add_body(name="block", shape=shape, mass=1.0, inertia=(a * a + b * b) / 3, **pose)
    scene.add_contact(floor, body, friction=mu, restitution=law)
    return scene


def rock(scene, duration, **settings):
    """Of its first impact in a run with chosen steps, or with steps of `h`: the velocities before
    it and after it, the place of the body, where the impulse acts, and this."""
    stepper = ist.GeometricallyImplicit() if "h" in settings else ist.RadauContact()
    found = ist.simulate(scene, stepper, duration=duration, **(settings or {"tol": 1e-8}))
    first = int(np.flatnonzero(found.h == 0)[0])
    impulse, where = found.contacts.normal_impulse[first, 0], found.contacts.point_2[first, 0]
    return *found.velocity[first : first + 2, 0], found.position[first, 0], where, impulse


@pytest.mark.parametrize("mu", [0.0, 1.0])
@LAWS
def test_a_wide_block_that_lands_on_its_face_rocks_back_about_its_corner(law, mu):
    """It has e times its spin, as velocities along its face are in proportion to the distance from
    the corner on which it turned. The impulse acts where momentum and moment about that say: I / (m
    a) beyond the middle, or (I + m b^2) / (m a) where it sticks."""
    (a, b), inertia = WIDE, (WIDE[0] ** 2 + WIDE[1] ** 2) / 3
    before, after, place, where, impulse = rock(block(WIDE, law(E), mu), 0.12)
    assert after[2] == pytest.approx(-E * before[2], abs=1e-10)
    assert after[1] == pytest.approx(-E * before[1], abs=1e-10)
    assert impulse == pytest.approx(-(1 + E) * before[1], abs=1e-10)
    assert where[0] - place[0] == pytest.approx((inertia + (b * b if mu else 0.0)) / a, abs=1e-7)


@LAWS
def test_a_tall_block_rebounds_from_its_other_corner(law):
    """Without friction: p = (1 + e) v / (1 / m + a^2 / I), and the corner on which it turned is
    lifted off the floor."""
    a, inertia = TALL[0], (TALL[0] ** 2 + TALL[1] ** 2) / 3
    before, after, place, where, impulse = rock(block(TALL, law(E), 0.0), 0.11)
    strikes = before[1] + a * before[2]
    assert before[1] - a * before[2] == pytest.approx(0, abs=1e-10)
    assert impulse == pytest.approx(-(1 + E) * strikes / (1 + a * a / inertia), abs=1e-10)
    np.testing.assert_allclose(after, before + [0, impulse, a * impulse / inertia], rtol=0, atol=1e-10)
    np.testing.assert_allclose(where, [place[0] + a, 0], rtol=0, atol=1e-8)
    assert after[1] - a * after[2] > 0.1


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
@LAWS
def test_a_tall_block_that_sticks_keeps_the_spin_that_housner_says(law, share):
    """Housner (1963), with a rebound: the moment of momentum about the corner that strikes gives 1
    - (3/2) (1 + e) sin^2 alpha of the spin, alpha the slope of its diagonal."""
    keeps = 1 - 1.5 * (1 + share) * TALL[0] ** 2 / (TALL[0] ** 2 + TALL[1] ** 2)
    scene = block(TALL, law(share), 1.0)
    if share:
        before, after, *_ = rock(scene, 0.195)
        before, after = before[2], after[2]
    else:  # through it goes a short step of the paper's scheme
        found = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=0.2)
        jump = int(np.argmax(np.abs(np.diff(found.velocity[:, 0, 2]))))
        before, after = found.velocity[jump : jump + 2, 0, 2]
    assert after / before == pytest.approx(keeps, abs=1e-10 if share else 1e-6)


@pytest.mark.parametrize("settings", [{}, {"h": 0.005}], ids=["tol", "h"])
@LAWS
def test_a_block_dropped_on_its_corner_spins_as_the_closed_form_says(law, settings):
    """Without friction: p = (1 + e) v / (1 / m + r^2 / I), r the way of the corner to the side."""
    scene = block(WIDE, law(E), 0.0, drop=0.1, slope=0.3)
    stepper = ist.GeometricallyImplicit() if settings else ist.RadauContact()
    found = ist.simulate(scene, stepper, duration=0.15, **(settings or {"tol": 1e-8}))
    jump = int(np.argmax(np.abs(np.diff(found.velocity[:, 0, 2]))))
    after, inertia = found.velocity[jump + 1, 0], (WIDE[0] ** 2 + WIDE[1] ** 2) / 3
    fall = found.velocity[jump, 0, 1] if settings else -G * found.events[0].time
    r = -WIDE[0] * np.cos(0.3) + WIDE[1] * np.sin(0.3)
    p = -(1 + E) * fall / (1 + r * r / inertia)
    np.testing.assert_allclose(after[1:], [fall + p, r * p / inertia], rtol=0, atol=1e-9)


def stands(shape, half, inertia, law, mu, yaw, slope=SLOPE):
    """A body in space that stands on the rim of its lower face, of half sizes (across, up) [m],
    turned by `yaw` [rad] about the vertical."""
    scene, (a, b) = ist.Scene(gravity=(0, 0, -G)), half
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    about, tilt = (np.cos(yaw / 2), np.sin(yaw / 2)), (np.cos(slope / 2), np.sin(slope / 2))
    turned = (about[0] * tilt[0], -about[1] * tilt[1], about[0] * tilt[1], about[1] * tilt[0])
    height = a * np.sin(slope) + b * np.cos(slope)
    body = scene.add_body(name="body", shape=shape, mass=1.0, inertia=inertia, position=(0, 0, height), quaternion=turned)
    scene.add_contact(floor, body, friction=mu, restitution=law)
    return scene


@pytest.mark.thorough
@pytest.mark.parametrize("yaw", [0.0, 0.4])
@pytest.mark.parametrize("law", [ist.Newton, ist.Poisson])
def test_a_tall_box_in_space_rocks_as_in_the_plane(law, yaw):
    """From edge to edge, also along no axis."""
    (a, b), c = TALL, 0.2
    inertia = ((c * c + b * b) / 3, (a * a + b * b) / 3, (a * a + c * c) / 3)
    before, after, place, where, _ = rock(stands(shapes.Box((a, c, b)), TALL, inertia, law(E), 1.0, yaw), 0.195)
    keeps = 1 - 1.5 * (1 + E) * a * a / (a * a + b * b)
    np.testing.assert_allclose(after[3:], keeps * before[3:], rtol=0, atol=1e-9)
    off = where[:2] - place[:2]
    np.testing.assert_allclose(off, -a * np.array([np.cos(yaw), np.sin(yaw)]), rtol=0, atol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("half", [(0.1, 0.2), (0.2, 0.05)], ids=["rim", "within"])
def test_a_cylinder_rocks_on_its_rim(half):
    """With I_O its inertia about the point where it turns, the spin is 1 - 2 (1 + e) m r^2 / I_O
    of that before where the far side of its rim strikes, and -e where it stays on its face."""
    r, b = half
    across = r * r / 4 + b * b / 3
    scene = stands(shapes.Cylinder(r, b), half, (across, across, r * r / 2), ist.Newton(E), 0.9, 0.0)
    before, after, *_ = rock(scene, 0.13 if r < b else 0.08)
    keeps = 1 - 2 * (1 + E) * r * r / (across + r * r + b * b) if r < b else -E
    np.testing.assert_allclose(after[3:], keeps * before[3:], rtol=0, atol=1e-8)


@pytest.mark.parametrize("settings", [{"tol": 1e-8}, {"h": 0.005}], ids=["tol", "h"])
@pytest.mark.parametrize("half", [WIDE, TALL], ids=["wide", "tall"])
@LAWS
def test_a_run_that_begins_as_a_block_comes_down_flat_begins_with_that_impact(law, half, settings):
    """Its left corner does not move, its right one comes down at 1 m/s; with the closed forms of a
    wide and of a tall block without friction."""
    (a, b), spin = half, -1 / (2 * half[0])
    scene, inertia = ist.Scene(dimension=2, gravity=(0, -G)), (half[0] ** 2 + half[1] ** 2) / 3
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    shape = shapes.Polygon([(x * a, y * b) for x in (-1, 1) for y in (-1, 1)])
    motion = {"position": (0, b), "velocity": (0, -0.5, spin)}
    body = scene.add_body(name="block", shape=shape, mass=1.0, inertia=inertia, **motion)
    scene.add_contact(floor, body, restitution=law(E))
    before, after, _, where, impulse = rock(scene, 0.01, **settings)
    p = (1 + E) * 0.5 if half is WIDE else (1 + E) / (1 + a * a / inertia)
    reach = inertia / a if half is WIDE else a
    np.testing.assert_allclose(before, [0, -0.5, spin], rtol=0, atol=1e-15)
    np.testing.assert_allclose(after, before + [0, p, reach * p / inertia], rtol=0, atol=1e-9)
    assert (impulse, where[0]) == (pytest.approx(p, abs=1e-9), pytest.approx(reach, abs=1e-7))


@pytest.mark.parametrize("mu", [0.0, 0.4])
@LAWS
def test_no_corner_of_a_box_that_turns_about_another_is_left_going_in(law, mu):
    """Over boxes that come down flat about a corner, which does not move: where an impact is found,
    no corner goes into the floor, and by Newton's law each has at least its share of its speed."""
    half, rng = np.array([0.3, 0.2, 0.1]), np.random.default_rng(5)
    scene = stands(shapes.Box(half), (0.3, 0.1), tuple((half @ half - half**2) / 3), law(E), mu, 0.7, slope=0.0)
    system, state = scene.build()
    turned = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    corners = np.array([[*(turned @ (x * half[:2])), -half[2]] for x in [(-1, -1), (1, -1), (1, 1), (-1, 1)]])
    (closest,) = map(np.array, closest_points(system, state))
    found = 0
    for _ in range(30):
        spin = rng.normal(size=3)
        held = corners[np.argmax(np.cross(spin, corners)[:, 2])]  # all others come down
        before = np.cross(spin, corners - held)[:, 2]
        velocity = np.concatenate([np.cross(spin, -held), spin])
        closest[0, :2] = closest[0, 3:5] = held[:2]
        moving = dataclasses.replace(state, velocity=velocity[None])
        hit, _, rebounds, _ = face_rebounds.meet(lambda *at: (meet_at(*at),), system, moving, (closest,))
        if hit is None:
            continue
        assert rebounds
        found, after = found + 1, hit[0].state.velocity[0]
        after = (after[:3] + np.cross(after[3:], corners))[:, 2]
        assert np.min(after + (0.0 if law is ist.Poisson else E) * before) > -2e-6
    assert found >= 20


def test_given_steps_rock_tall_blocks_and_wide_ones():
    """Tall ones lift off; the corner of a wide one leaves the floor, in given steps, with a speed
    of order h as its other one strikes, and has -e times that after it."""
    before, after, *_ = rock(block(TALL, ist.Newton(E), 1.0), 0.2, h=0.005)
    keeps = 1 - 1.5 * (1 + E) * TALL[0] ** 2 / (TALL[0] ** 2 + TALL[1] ** 2)
    assert after[2] / before[2] == pytest.approx(keeps, abs=2e-3)
    before, after, *_ = rock(block(WIDE, ist.Newton(E), 1.0), 0.12, h=0.005)
    assert after[2] / before[2] == pytest.approx(-E, abs=1e-12)


def test_a_rebound_that_a_step_forgets_is_an_error(monkeypatch):
    """Were no point found at which the block strikes, the run would not go on as without a
    restitution."""
    monkeypatch.setattr(face_rebounds, "strikes_elsewhere", lambda *_: None)
    with pytest.raises(ist.StepError, match="no centres of pressure were found") as caught:
        rock(block(TALL, ist.Newton(E), 1.0), 0.2)
    assert caught.value.result == ist.Result.NO_CENTRES
