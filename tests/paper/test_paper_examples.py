"""The three examples of Chakraborty et al. against exact answers: rolling disc, spinning sphere,
sphere on two spheres."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import ncp
from implicit_stepper.paper import exact, scenes

STEPPER = ist.GeometricallyImplicit()


def worst(trajectory):
    return max(float(v.max()) for v in trajectory.certificate.values())


def test_disc_rolls_for_ever():
    trajectory = ist.simulate(scenes.disc(), STEPPER, h=0.01, duration=100.0)
    energy = trajectory.kinetic_energy()
    assert len(trajectory) == 10_000
    assert energy[0] == pytest.approx(6.75, rel=1e-15)
    assert np.abs(energy / 6.75 - 1).max() <= 1e-12
    assert np.abs(trajectory.contacts.gap).max() <= 1e-13
    # the weight's impulse m g h
    assert np.abs(trajectory.contacts.normal_impulse / (9.81 * 0.01) - 1).max() <= 1e-10
    assert np.abs(trajectory.contacts.friction_impulse).max() <= 1e-10 * 9.81 * 0.01
    assert trajectory.position[-1, 0] == pytest.approx([-300, 1], abs=1e-9)


def test_spinning_sphere_stops_as_computed_by_hand():
    h, count = 0.07, 18
    trajectory = ist.simulate(scenes.spin(), STEPPER, h=h, duration=count * h)
    slope = 0.2 * 0.4 * 9.81 / 0.4  # mu e_r m g / I = 1.962 rad/s^2
    spin = np.maximum(1.962 - slope * h * np.arange(count + 1), 0.0)
    assert np.abs(trajectory.velocity[:, 0, 5] - spin).max() <= 1e-10
    assert trajectory.velocity[14, 0, 5] == pytest.approx(0.03924, abs=1e-10)
    assert np.abs(trajectory.velocity[15:, 0]).max() <= 1e-10
    torque = np.abs(trajectory.contacts.friction_impulse[:, 0, 2]) / h
    assert torque[:14] == pytest.approx(np.full(14, 0.7848), abs=1e-10)
    # what stops the rest: .22423 N m
    assert torque[14] == pytest.approx(0.4 * 0.03924 / h, abs=1e-10)
    assert np.abs(torque[15:]).max() <= 1e-10
    assert np.abs(trajectory.contacts.friction_impulse[:, 0, :2]).max() <= 1e-10


@pytest.fixture(scope="module")
def two_spheres():
    return {h: ist.simulate(scenes.two_spheres(), STEPPER, h=h, duration=4.0) for h in (0.02, 0.01, 0.005, 0.0025)}


def order(hs, errors):
    return np.polyfit(np.log(hs), np.log(errors), 1)[0]


@pytest.mark.parametrize(
    ("time", "phase"), [(1.0, "one contact sticks"), (2.9, "before slip"), (3.1, "both slide"), (3.5, "one left")]
)
def test_two_spheres_converge_at_first_order(two_spheres, time, phase):
    truth = exact.two_spheres().at(np.array([time]))
    hs = np.array(sorted(two_spheres))
    index = [round(time / h) for h in hs]
    position = [np.linalg.norm(two_spheres[h].position[i, 0] - truth.position[0]) for h, i in zip(hs, index, strict=True)]
    velocity = [np.linalg.norm(two_spheres[h].velocity[i, 0] - truth.velocity[0]) for h, i in zip(hs, index, strict=True)]
    assert order(hs, position) >= 0.95, phase
    assert order(hs, velocity) >= 0.95, phase


def test_two_spheres_events_are_within_a_step(two_spheres):
    events = exact.two_spheres().events
    for h, trajectory in two_spheres.items():
        end = trajectory.time[1:]
        slips = end[trajectory.contacts.sigma[:, 1] > 1e-9][0]
        opens = [end[trajectory.contacts.gap[:, i] > 1e-9][0] for i in (0, 1)]
        found = np.array([slips, *opens])
        known = np.array([events["contact 2 slips"], events["contact 1 opens"], events["contact 2 opens"]])
        assert np.all(np.abs(found - known) <= h)


def test_two_spheres_error_is_that_of_the_scheme(two_spheres):
    """The same NCP solved by PATH 5.2 was .0516 m off at t = 3 s for h = .01: the scheme's error,
    whoever solves it."""
    truth = exact.two_spheres().at(np.array([3.0])).position[0]
    assert np.linalg.norm(two_spheres[0.01].position[300, 0] - truth) == pytest.approx(0.0516, abs=5e-5)


def test_two_spheres_start_and_slide_on_the_cone(two_spheres):
    trajectory = two_spheres[0.0025]
    force = trajectory.contacts.normal_impulse / trajectory.h
    before, after = exact.two_spheres().at(np.array([0.0, trajectory.h])).normal_force
    # the exact forces' change within that step
    assert np.all(np.abs(force[0] - before) <= np.abs(after - before))
    for h, run in two_spheres.items():
        e = np.array([1.0, 1.0, 0.3])
        y = np.linalg.norm(run.contacts.friction_impulse / e, axis=-1)
        sliding = run.contacts.sigma > 1e-6
        assert np.abs(y - 0.2 * run.contacts.normal_impulse)[sliding].max() <= 1e-10 * 9.81 * h
        assert np.all(y - 0.2 * run.contacts.normal_impulse <= 1e-10 * 9.81 * h)
        assert sliding[:, 0].sum() > 0.7 * len(run)


@pytest.mark.parametrize("h", [0.1, 0.07, 0.01, 0.001])
@pytest.mark.parametrize("example", ["disc", "spin", "two_spheres"])
def test_every_step_is_solved_and_certified(example, h):
    trajectory = ist.simulate(getattr(scenes, example)(), STEPPER, h=h, duration=4.0)
    assert len(trajectory) == np.ceil(4.0 / h - 1e-9)
    assert trajectory.stats.residual.max() <= 1e-10
    assert worst(trajectory) <= 1e-10


def test_mean_iterations(two_spheres):
    assert two_spheres[0.01].stats.iterations.mean() <= 5


def test_unknowns_are_the_papers():
    assert ncp.layout(scenes.two_spheres().build()[0]).size == 28
    # the paper's 9 and a2's second coordinate
    assert ncp.layout(scenes.disc().build()[0]).size == 10


def test_planar_disc_is_the_section_of_a_spatial_cylinder():
    """A sliding, spinning disc in the plane and a cylinder (a lateral surface cut by two planes) in
    space."""
    planar = ist.Scene(dimension=2, gravity=(0, -9.81))
    disc = planar.add_body(name="disc", shape=shapes.Disc(1.0), mass=1.0, position=(0, 1.3), velocity=(-3, 0, 1))
    line = planar.add_fixed(name="line", shape=shapes.HalfPlane(normal=(0, 1)))
    planar.add_contact(disc, line, friction=0.4)

    cylinder = shapes.Intersection(
        [
            shapes.ImplicitShape([shapes.x**2 + shapes.y**2 - 1]),
            shapes.HalfSpace(normal=(0, 0, 1), offset=0.5),
            shapes.HalfSpace(normal=(0, 0, -1), offset=0.5),
        ]
    )
    spatial = ist.Scene(gravity=(0, -9.81, 0))
    body = spatial.add_body(
        name="cylinder",
        shape=cylinder,
        mass=1.0,
        inertia=(1 / 3, 1 / 3, 0.5),
        position=(0, 1.3, 0),
        velocity=(-3, 0, 0, 0, 0, 1),
    )
    floor = spatial.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 1, 0)))
    spatial.add_contact(body, floor, friction=ist.FrictionEllipsoid(mu=0.4))

    flat = ist.simulate(planar, STEPPER, h=0.01, duration=2.0)
    solid = ist.simulate(spatial, STEPPER, h=0.01, duration=2.0)
    assert np.abs(flat.position[:, 0] - solid.position[:, 0, :2]).max() <= 1e-9
    assert np.abs(flat.velocity[:, 0] - solid.velocity[:, 0][:, [0, 1, 5]]).max() <= 1e-9
    assert np.abs(flat.contacts.normal_impulse - solid.contacts.normal_impulse).max() <= 1e-9
    # it ends up rolling
    assert flat.velocity[-1, 0, 0] + flat.velocity[-1, 0, 2] == pytest.approx(0, abs=1e-9)
