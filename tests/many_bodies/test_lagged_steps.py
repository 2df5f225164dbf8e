"""Steps of methods that find contacts before they solve, and find their pairs: against runs with
all pairs declared, and closed forms."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import lagged_steps
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.certificate import worst_of
from implicit_stepper.many_bodies.step import may_touch, no_memory, posed
from implicit_stepper.run import found_pairs

H, STEPS, G = 0.01, 12, 9.81
FLOOR = shapes.HalfSpace(normal=(0, 0, 1), offset=0.0)


def falling():
    """Two balls that fall on a floor and on each other."""
    scene = ist.Scene()
    scene.add_fixed(name="floor", shape=FLOOR)
    places = ((0, 0, 0.12), (0.14, 0.01, 0.3))
    for k, place in enumerate(places):
        velocity = (0.3 - 0.4 * k, 0, -1, 0, 3, 0)
        scene.add_body(name=f"ball {k}", shape=shapes.Sphere(0.1), density=500, position=place, velocity=velocity)
    scene.add_contacts(friction=0.4)
    return scene


def finding(monkeypatch):
    """From now on every pair is found."""
    monkeypatch.setattr(found_pairs, "_MANY", 0)


def test_a_rod_that_sweeps_through_a_disc_takes_shorter_steps():
    """It turns by 150 degrees in a step, past a disc at 120: the normal turns by 30 alone, and by
    180 as the rod sees it. In quarters and a half of the step the disc is struck."""
    scene, turn = ist.Scene(dimension=2, gravity=(0, 0), acceleration_scale=G), np.deg2rad(120)
    rod = shapes.Polygon([(-1, -0.01), (1, -0.01), (1, 0.01), (-1, 0.01)])
    scene.add_body(name="rod", shape=rod, mass=1.0, inertia=0.33, position=(0, 0), velocity=(0, 0, np.deg2rad(1500)))
    place = 0.8 * np.cos(turn), 0.8 * np.sin(turn)
    scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, inertia=0.005, position=place)
    scene.add_contacts(friction=0.3)
    system, state = scene.build(contacts=False)
    known, state = catalog(system, scene.body_parts(), scene.body_pairs()), jax.tree.map(np.asarray, state)
    step = functools.partial(lagged_steps.advance, ist.ConeComplementarity(), 1e-10, known, system, state, no_memory(), 0.1)
    whole = step(left=0)
    assert whole.result == ist.Result.PASSED
    assert {known.names[part] for part in whole.passed} == {"rod", "disc"}
    parts = step()
    assert (parts.result, parts.substeps, parts.passed) == (ist.Result.SOLVED, 3, None)
    normal, gained = parts.contacts.normal[0], parts.state.velocity[1, :2] * (1 if whole.pairs[0, 0] == 0 else -1)
    assert parts.contacts.normal_impulse[0] == pytest.approx(normal @ gained, abs=1e-12)
    assert parts.contacts.normal_impulse[0] > 1.0
    assert worst_of(parts.certificate) < 1e-10


def test_static_friction_of_pairs_that_are_found_is_refused():
    """As that of declared ones is, with the pair that has it."""
    scene = ist.Scene(gravity=(0, 0, -G))
    balls = [scene.add_body(name=f"{k}", shape=shapes.Sphere(0.1), mass=1.0, position=(k, 0, 0.1)) for k in range(21)]
    scene.add_contacts(friction=0.3)
    scene.add_contact(balls[4], balls[2], friction=ist.FrictionEllipsoid(0.3, mu_s=0.9))
    for stepper, *_ in METHODS.values():
        assert found_pairs.finds_pairs(scene, stepper)
        with pytest.raises(ValueError, match=r"in steps of given length, and 2 and 4 a `mu_s` of its own"):
            ist.simulate(scene, stepper, h=H, duration=H)


METHODS = {
    "cones": [ist.ConeComplementarity(), ist.ConeComplementarity(solver="gauss-seidel")],
    "pyramids": [ist.Linearized()],
    "convex": [ist.Convex()],
}


@pytest.mark.parametrize(
    "steppers",
    [pytest.param(own, id=name, marks=[pytest.mark.thorough] if name == "cones" else []) for name, own in METHODS.items()],
)
def test_a_run_that_finds_its_pairs_is_that_with_all_pairs_declared(steppers, monkeypatch):
    declared = ist.simulate(falling(), steppers[0], h=H, duration=STEPS * H)
    finding(monkeypatch)
    for stepper in steppers:
        found = ist.simulate(falling(), stepper, h=H, duration=STEPS * H)
        assert np.max(np.abs(found.position - declared.position)) < 1e-9
        assert np.max(np.abs(found.velocity - declared.velocity)) < 1e-8
        for pair in (("floor", "ball 0"), ("ball 0", "ball 1")):
            own, other = found.contact(*pair), declared.contact(*pair)
            near = np.isfinite(own.gap)
            assert np.max(other.normal_force) > 0
            assert np.max(np.abs(own.gap[near] - other.gap[near])) < 1e-9
            assert np.max(np.abs(own.normal_force - other.normal_force)) < 1e-6 * np.max(other.normal_force)
        assert max(np.max(values) for values in found.certificate.values()) < 1e-10
        assert set(found.certificate) == set(declared.certificate)


def test_small_bodies_are_as_large_ones_to_scale(monkeypatch):
    """Grains of a thousandth of the size, with times and speeds to scale: their matrices have
    entries of 1e-9 kg and 1e-15 kg m^2, all of which count."""
    finding(monkeypatch)
    ends = []
    for r in (0.05, 5e-5):
        scene, swift = ist.Scene(), np.sqrt(r)
        scene.add_fixed(name="floor", shape=FLOOR)
        for k in range(4):
            place, pushed = (2.0002 * r * (k % 2), 2.0002 * r * (k // 2), 1.0001 * r), swift * (1 - 2 * (k % 2))
            scene.add_body(
                name=f"{k}", shape=shapes.Sphere(r), density=2650, position=place, velocity=(pushed, swift, 0, 0, 0, 0)
            )
        scene.add_contacts(friction=0.3)
        run = ist.simulate(scene, ist.Convex(), h=0.02 * swift, duration=0.06 * swift)
        ends.append(run.velocity[-1, :, :3] / swift)
    np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=1e-6)


@pytest.fixture(scope="module", params=[(ist.ConeComplementarity(), "dual cone"), (ist.Linearized(), "linearised gap"),
                                        (ist.Convex(), "dual cone")], ids=METHODS)  # fmt: skip
def step(request):
    """A step in which two balls and the floor meet, how to certify what is made of it, and what
    forbids overlap."""
    scene, (stepper, overlap) = falling(), request.param
    system, state = scene.build(contacts=False)
    known, state = catalog(system, scene.body_parts(), scene.body_pairs()), jax.tree.map(np.asarray, state)
    memory = no_memory()
    for _ in range(STEPS):
        before, last = state, memory
        done = lagged_steps.advance(stepper, 1e-10, known, system, state, memory, H)
        state, memory = done.state, done.memory
    at = posed(known, system, before, last, H, may_touch(known, system, before, H), "projection")
    counts = np.cumsum([0, *at.problem.counts])
    parts = [
        (own, jax.tree.map(lambda a, k=k: a[counts[k] : counts[k + 1]], done.contacts))
        for k, own in enumerate(at.problem.slots)
    ]
    return done, parts, functools.partial(lagged_steps.certificate, stepper, system, before, step=at.problem.step), overlap


def changed(parts, name, change):
    """The `parts` with one field of all records changed."""
    return [(own, dataclasses.replace(record, **{name: change(getattr(record, name))})) for own, record in parts]


def test_the_certificate_holds_of_the_step_and_of_nothing_near_it(step):
    done, parts, certify, overlap = step
    assert np.max(done.contacts.normal_impulse) > 0
    assert worst_of(certify(done.state, parts)) < 1e-11
    pushed = dataclasses.replace(done.state, velocity=done.state.velocity + 1e-6)
    assert np.max(certify(pushed, parts)["momentum"]) > 1e-6
    moved = dataclasses.replace(done.state, position=done.state.position + 1e-6)
    assert np.max(certify(moved, parts)["pose"]) > 1e-6
    wrong = {
        "normal_impulse": (lambda p: p + 1e-6, "momentum"),
        "friction_impulse": (lambda p: p + 1e-6, "momentum"),
        "gap_start": (lambda psi: psi - 1e-6, overlap),
        "point_1": (lambda a: a + 1e-6, "closest points"),
        "slip": (lambda v: v + 1e-6, "slip"),
    }
    for name, (change, violated) in wrong.items():
        assert np.max(certify(done.state, changed(parts, name, change))[violated]) > 1e-7, name


def balls(count, speed=3.0, mu=0.1):
    """Balls that slide side by side on a floor, and so far apart that they never meet."""
    scene = ist.Scene()
    scene.add_fixed(name="floor", shape=FLOOR)
    for k in range(count):
        velocity = (speed, 0, 0, 0, 0, 0)
        scene.add_body(name=f"ball {k}", shape=shapes.Sphere(0.1), mass=1.0, position=(0, k, 0.1), velocity=velocity)
    scene.add_contacts(friction=mu)
    return scene


def test_methods_are_compared_on_scenes_whose_pairs_they_find():
    """21 balls have 231 pairs, of which 21 come near. Friction slows sliding balls by mu g, by
    implicit Euler half a step late; the cone's relaxation lifts them by mu h |w|."""
    count, speed, mu, duration = 21, 3.0, 0.1, 0.1

    def reference(times):
        position = np.tile(np.arange(count)[:, None] * [0.0, 1.0, 0.0] + [0, 0, 0.1], (len(times), 1, 1))
        position[..., 0] += (speed * times - mu * G * times**2 / 2)[:, None]
        velocity = np.zeros((len(times), count, 6))
        velocity[..., 0] = (speed - mu * G * times)[:, None]
        velocity[..., 4] = (2.5 * mu * G * times / 0.1)[:, None]
        return position, velocity

    steppers = ist.GeometricallyImplicit(), ist.ConeComplementarity(), ist.Linearized(), ist.Convex(scheme="symplectic")
    methods = dict(zip(("ours", "ccp", "lcp", "convex"), steppers, strict=True))
    told = ist.compare(balls(count), methods, [H], reference, duration=duration, progress=False)
    ours, ccp, lcp, convex = told.entries
    assert all(
        entry.failure == "" and len(told.trajectories[entry.method, H].contact_names) == count for entry in told.entries
    )
    assert lcp.error == pytest.approx(ours.error, abs=1e-9)  # balls slide along a facet
    assert lcp.penetration < 1e-11
    assert ours.error == pytest.approx(mu * G * duration * H / 2, abs=1e-9)
    assert ours.penetration < 1e-12
    # after the first step, whose friction also is that of the impulse that lifts
    slip = (speed - 3.5 * mu * G * H) / (1 + 3.5 * mu**2)
    assert ccp.predicted == pytest.approx(mu * H * slip, rel=1e-9)
    assert ccp.measured == pytest.approx(ccp.predicted, abs=1e-9)
    # less what its compliance gives way, which falls with the oscillations that it makes
    assert convex.measured == pytest.approx(convex.predicted, rel=0.05)
    assert convex.predicted == pytest.approx(ccp.predicted, rel=0.01)


def test_closest_points_are_found_anew_where_those_of_the_last_step_lead_nowhere(monkeypatch):
    """A brick that tumbles comes to lie on a side whose corners no local search from the last one
    finds: the step failed."""
    scene = ist.Scene(dimension=2)
    brick = shapes.Polygon([(-0.1, -0.08), (0.1, -0.08), (0.1, 0.08), (-0.1, 0.08)])
    scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    scene.add_body(name="brick", shape=brick, mass=0.5, position=(0, 0.13), velocity=(0.3, -1, 3.0))
    scene.add_contacts(friction=0.3)
    finding(monkeypatch)
    found = ist.simulate(scene, ist.ConeComplementarity(), h=0.005, duration=0.3)
    assert abs(found.angle[-1, 0]) < 0.01
    assert max(np.max(values) for values in found.certificate.values()) < 1e-10


def test_a_step_that_no_iteration_solves_says_so(monkeypatch):
    finding(monkeypatch)
    with pytest.raises(ist.StepError, match="warm start") as caught:
        ist.simulate(falling(), ist.ConeComplementarity(max_iterations=2), h=H, duration=STEPS * H)
    assert len(caught.value.trajectory) > 0


def two_discs():
    """Discs 12 mm apart that fly side by side, by a third of their size in a step."""
    scene = ist.Scene(dimension=2, length_scale=0.0353)
    places, speeds = ((0.05215, -0.55966), (0.06183, -0.46643)), ((0.03455, -3.43148, 1.76945), (0.28951, -3.34512, 4.07577))
    for k, (radius, place, speed) in enumerate(zip((0.0472, 0.03504), places, speeds, strict=True)):
        scene.add_body(name=f"disc {k}", shape=shapes.Disc(radius), density=64.0, position=place, velocity=speed)
    scene.add_contacts(friction=0.5)
    return scene


@pytest.mark.parametrize("carried", [True, False])
def test_far_sides_of_bodies_apart_are_no_closest_points(carried, monkeypatch):
    """Points that are not carried along with their discs are past them after a step; a search from
    there ends at the far sides, where a gap of -177 mm meets all conditions of closest points but
    that bodies overlap there. The certificate sees that, and the step begins again without a
    hint."""
    finding(monkeypatch)
    if not carried:
        monkeypatch.setattr(lagged_steps, "carried", lambda at, form, moving, points: points)
    run = ist.simulate(two_discs(), ist.ConeComplementarity(), h=0.005, duration=0.02)
    assert np.any(run.stats.rung) != carried
    np.testing.assert_allclose(run.velocity[-1], run.velocity[0] + [0.0, -0.02 * G, 0.0], rtol=0, atol=1e-12)
