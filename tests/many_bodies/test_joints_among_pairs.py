"""Joints in runs that find their pairs: against runs with all pairs declared, in one compiled
step."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import advance, host_newton, sweeps
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.certificate import certificate
from implicit_stepper.many_bodies.step import no_memory, posed
from implicit_stepper.run import pile_run

# the limit is met in step 10, bars land in step 14, and the ball has hit one by step 22
H, STEPS = 0.005, 28
SPARSE = ist.GeometricallyImplicit(jacobian="sparse")


def shaken(time):
    """The pose of the floor."""
    return jnp.array([0.02 * jnp.sin(20 * time), 0.0, 0.005 * jnp.sin(30 * time)]), jnp.array([1.0, 0, 0, 0])


def mechanism_and_balls():
    """On a shaken floor two bars on a hinge that rubs, with a limit, a spring and a motor; two
    balls on a rod; and a ball that hits one."""
    scene = ist.Scene()
    plane = shapes.HalfSpace(normal=(0, 0, 1), offset=0.0)
    scene.add_moving(name="floor", shape=plane, mass=5.0, inertia=(1, 1, 1), pose=shaken)
    # they slide: what stuck with both would share its forces with the hinge in many ways
    bar = {"shape": shapes.Sphere(0.05), "mass": 1.0, "velocity": (0.5, 0, 0, 0, 0, 0)}
    bars = [scene.add_body(name=f"bar {k}", position=(0.41 * k, 0, 0.08), **bar) for k in range(2)]
    rubs = ist.JointFriction(mu=0.2, radius=0.01)
    hinge = ist.Hinge(point_1=(0.205, 0, 0), axis_1=(0, 1, 0), point_2=(-0.205, 0, 0), axis_2=(0, 1, 0), friction=rubs)
    scene.add_joint(*bars, hinge, name="hinge")
    scene.add_limit("hinge", low=-0.1, high=0.1)
    scene.add_spring("hinge", stiffness=2.0, damping=0.05)
    scene.add_motor("hinge", speed=2.0, most=0.5)
    ball = {"shape": shapes.Sphere(0.05), "mass": 0.5}
    ends = [
        scene.add_body(name=f"end {k}", position=(0.3 * k, 0.4, 0.06), velocity=(0, k - 1, 0, 0, 0, 0), **ball)
        for k in (0, 1)
    ]
    scene.add_joint(*ends, ist.Distance(point_1=(0, 0, 0), point_2=(0, 0, 0), length=0.3), name="rod")
    scene.add_body(name="ball", position=(0.08, 0.02, 0.2), **ball)
    scene.add_contacts(friction=0.4)
    return scene


@pytest.fixture(scope="module")
def runs():
    scene = mechanism_and_balls()
    return scene, *(ist.simulate(scene, own, h=H, duration=H * STEPS) for own in (SPARSE, ist.GeometricallyImplicit()))


def test_joints_are_those_of_a_run_with_all_pairs_declared(runs):
    scene, found, declared = runs
    assert len(found) == len(declared) == STEPS
    assert np.max(np.abs(found.position - declared.position)) < 1e-10
    assert np.max(np.abs(found.velocity - declared.velocity)) < 1e-8
    names = scene.build(contacts=False)[0].joint_names
    assert len(names) == 7
    for name in names:
        for of in ("coordinate", "rate", "closure"):
            own, other = (getattr(run.joint(name), of) for run in (found, declared))
            assert np.max(np.abs(own - other), initial=0.0) < 1e-8, (name, of)
    # friction, motor, spring and limit share the moment about one axis where the hinge stands still
    for together in (["drive of floor"], ["rod"], [name for name in names if "hinge" in name]):
        for of in ("force", "moment"):
            own, other = (sum(getattr(run.joint(name), of) for name in together) for run in (found, declared))
            assert np.max(np.abs(own - other)) < 1e-6 * max(1.0, np.max(np.abs(other))), (together, of)
    # all of them had work to do: the limit stopped the hinge, which the motor had turned
    assert np.max(np.abs(found.joint("hinge").coordinate)) == pytest.approx(0.1, abs=1e-9)
    assert np.max(np.abs(found.joint("drive of floor").force[:, 2])) > 20
    assert np.ptp(found.joint("rod").force[:, 0]) > 1.0
    assert np.nanmax(found.contact("bar 0", "ball").normal_force) > 20
    assert np.max(np.abs(found.joint("hinge").closure)) < 1e-12
    assert max(np.max(values) for values in found.certificate.values()) < 1e-10


def test_joints_of_a_run_whose_first_step_fails_have_no_steps(runs, monkeypatch, tmp_path):
    scene, some, _ = runs
    taken = advance.advance
    monkeypatch.setattr(
        pile_run, "advance", lambda *of, **how: dataclasses.replace(taken(*of, **how), result=ist.Result.NOT_CERTIFIED)
    )
    run = ist.simulate(scene, SPARSE, h=H, duration=H, on_failure="return")
    assert len(run) == 0
    run.save(tmp_path / "run.npz")
    for found in (run, ist.load(tmp_path / "run.npz")):
        for name in some.joint_names:
            for of in ("force", "moment", "coordinate", "rate", "closure"):
                assert getattr(found.joint(name), of).shape == (0, *getattr(some.joint(name), of).shape[1:])
    assert run.to_xarray().sizes["joint"] == 7


def test_a_joint_that_is_torn_or_lies_about_its_force_is_a_violation(runs):
    """The certificate of a step checks joints from their record alone."""
    scene, found, _ = runs
    system, _ = scene.build(contacts=False)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    before, after = (
        jax.tree.map(np.asarray, ist.State(found.time[k], found.position[k], found.orientation[k], found.velocity[k]))
        for k in (1, 2)
    )
    assert np.max(found.contacts.normal_impulse[1]) < 1e-12  # all of them fly
    step = posed(known, system, before, no_memory(), H, np.zeros((0, 2), int), "projection").problem.step
    joints = jax.tree.map(lambda a: a[1], found.contacts.joints)

    def violations(after, joints):
        return {name: np.max(v) for name, v in certificate(system, before, after, [], joints, step).items()}

    assert max(violations(after, joints).values()) < 1e-10
    pulled = dataclasses.replace(joints, multipliers=joints.multipliers + 1e-3)
    assert violations(after, pulled)["reaction"] > 1e-6
    pushed = dataclasses.replace(joints, impulse_1=joints.impulse_1 + 1e-3)
    assert violations(after, pushed)["momentum"] > 1e-6
    torn = dataclasses.replace(after, position=after.position + 1e-3 * np.arange(len(after.position))[:, None])
    assert violations(torn, joints)["closure"] > 1e-6


@pytest.mark.thorough
def test_discs_in_a_shaken_tray_are_mended_by_sweeps(monkeypatch):
    """A body that a joint places keeps its velocity in sweeps from contact to contact."""
    scene, rng = ist.Scene(dimension=2), np.random.default_rng(0)

    def pose(time):
        return jnp.array([0.03 * jnp.sin(30 * time), 0.02 * jnp.sin(40 * time)]), jnp.array([0.1 * jnp.sin(25 * time)])

    tray = [(shapes.Disc(0.06), ((0.09 * k - 0.36, 0.02 * abs(k - 4) ** 1.5), 0.0)) for k in range(9)]
    scene.add_moving(name="tray", shapes=tray, mass=1.0, inertia=1.0, pose=pose)
    for k in range(8):
        place = (0.11 * (k % 4) - 0.165 + 0.01 * rng.random(), 0.19 + 0.1 * (k // 4))
        scene.add_body(name=f"disc {k}", shape=shapes.Disc(0.04), density=60.0, position=place)
    scene.add_contacts(friction=0.5)
    swept, calls = sweeps.swept, []
    monkeypatch.setattr(host_newton, "swept", lambda *arguments: calls.append(1) or swept(*arguments))
    found, declared = (ist.simulate(scene, own, h=H, duration=60 * H) for own in (SPARSE, ist.GeometricallyImplicit()))
    assert len(calls) > 5
    assert np.max(np.abs(found.position - declared.position)) < 1e-8


def test_a_scene_without_a_contact_may_find_its_pairs():
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.05))
    bob = scene.add_body(name="bob", shape=shapes.Sphere(0.05), mass=1.0, position=(1, 0, 0))
    scene.add_joint(wall, bob, ist.Hinge((0, 0, 0), (0, 1, 0), (-1, 0, 0), (0, 1, 0)), name="hinge")
    runs = [ist.simulate(scene, stepper, h=H, duration=3 * H) for stepper in (SPARSE, ist.GeometricallyImplicit())]
    np.testing.assert_allclose(runs[0].velocity, runs[1].velocity, rtol=0, atol=1e-12)
