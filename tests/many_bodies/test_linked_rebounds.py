"""Rebounds beside joints among pairs that are found: against impacts in closed form, and what the
certificate sees."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import rebounds
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.linked_certificate import linked
from implicit_stepper.many_bodies.rebound_certificate import rebound_violations
from implicit_stepper.model.bodies import State
from implicit_stepper.run.found_pairs import finds_pairs

H, R, E = 0.02, 0.1, 0.6
SPARSE = ist.GeometricallyImplicit(jacobian="sparse")
# moment of inertia of a dumbbell whose balls are .4 m apart
SPIN = 2 * (0.4 * R**2 + 0.2**2)


def paddle(time):
    """The pose of a ball that is told to rise at 1 m/s, and comes to its line in two steps."""
    return jnp.array([-(jnp.minimum(time - 2 * H, 0.0) ** 2), 0.0, time]), jnp.array([1.0, 0, 0, 0])


def hits(law):
    """Balls of 1 kg without weight that meet at 1 m/s: one with a paddle, one with a slide that
    rests on its limit, one with a slide that it lifts from there, and one with an end of a
    dumbbell."""
    scene = ist.Scene(gravity=(0, 0, 0), acceleration_scale=10.0)
    ball, up, down = {"shape": shapes.Sphere(R), "mass": 1.0}, (0, 0, 1, 0, 0, 0), (0, 0, -1, 0, 0, 0)
    scene.add_moving(name="paddle", inertia=(1, 1, 1), pose=paddle, **ball)
    scene.add_body(name="served", position=(0, 0, 0.25), **ball)
    for x, (name, place, velocity) in enumerate((("from above", 0.25, down), ("from below", -0.25, up)), start=1):
        post = scene.add_fixed(name=f"post {name}", shape=shapes.Sphere(R), position=(x, 0, -2))
        slide = scene.add_body(name=f"slide {name}", position=(x, 0, 0), **ball)
        scene.add_joint(post, slide, ist.Slider((0, 0, 2), (0, 0, 1), (0, 0, 0), (0, 0, 1)), name=f"guide {name}")
        scene.add_limit(f"guide {name}", low=0.0)
        scene.add_body(name=name, position=(x, 0, place), velocity=velocity, **ball)
    scene.add_spring("guide from below", stiffness=0.0, name="spring")
    ends = [scene.add_body(name=f"end {k}", position=(3 + 0.4 * k, 0, 0), **ball) for k in range(2)]
    scene.add_joint(*ends, ist.Fixed((0.2, 0, 0), (-0.2, 0, 0)), name="rod")
    scene.add_body(name="thrown", position=(3, 0, -0.24), velocity=up, **ball)
    scene.add_contacts(friction=0.0, restitution=law)
    return scene


@pytest.fixture(scope="module")
def found():
    """By law, the run of these balls through both impacts."""
    return {law: ist.simulate(hits(law(E)), SPARSE, h=H, duration=0.06) for law in (ist.Newton, ist.Poisson)}


@pytest.mark.parametrize("law", [ist.Newton, ist.Poisson])
def test_joints_answer_an_impact_as_closed_forms_say(found, law):
    run = found[law]
    assert list(run.h) == [H, H, 0.0, H, 0.0]
    assert [event.time for event in run.events] == pytest.approx([0.04, 0.06, 0.06, 0.06])
    P = (1 + E) / (1 + 1 / 2 + 0.2**2 / SPIN)
    turning = 0.2 * P / SPIN  # about y, as the end that is hit rises
    ends = {"end 0": P / 2 + 0.2 * turning, "end 1": P / 2 - 0.2 * turning}
    served = {"paddle": 1.0, "served": 1 + E, "slide from above": 0.0, "from above": E}
    served |= {"slide from below": (1 + E) / 2, "from below": (1 - E) / 2, "thrown": 1 - P}
    for speeds, velocity, spin in ((ends, run.velocity[3], turning), (served, run.velocity[-1], 0.0)):
        for name, speed in speeds.items():
            own = velocity[run.names.index(name)]
            np.testing.assert_allclose(own, [0, 0, speed, 0, spin, 0], rtol=0, atol=1e-12, err_msg=name)
    assert max(np.max(values) for values in run.certificate.values()) < 1e-12
    # what step and impact gave together: drive and limit hold what is pushed, a rod hands on a
    # share
    numbers = [run.joint_names.index(name) for name in ("drive of paddle", "low limit of guide from above", "rod")]
    given = np.sum(run.contacts.joints.impulse_2[:, numbers, 2], axis=0)
    np.testing.assert_allclose(given[:2], 1 + E, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.contacts.joints.impulse_2[2, numbers[2], 2], ends["end 1"], rtol=0, atol=1e-12)


def swings(stop, flies: bool):
    """A ball on a rod of .5 m that turns about a pin, without weight, and one that `flies` at a
    fixed one, which it meets in the first step; at `stop` [m] another fixed one."""
    scene = ist.Scene(gravity=(0, 0, 0), acceleration_scale=10.0)
    ball, up = {"shape": shapes.Sphere(R)}, (0, 0, 1, 0, 0, 0)
    pin = scene.add_fixed(name="pin", **ball)
    bob = scene.add_body(name="bob", mass=1.0, position=(0.5, 0, 0), velocity=(0, 0, 2.5, 0, -5, 0), **ball)
    scene.add_joint(pin, bob, ist.Hinge((0, 0, 0), (0, 1, 0), (-0.5, 0, 0), (0, 1, 0)), name="rod")
    scene.add_fixed(name="stop", position=stop, **ball)
    scene.add_body(name="flies", mass=1.0, position=(5, 0, 0), velocity=up, **ball)
    scene.add_fixed(name="wall", position=(5, 0, 0.215 if flies else 9.0), **ball)
    scene.add_contacts(friction=0.0, restitution=ist.Newton(E))
    return scene


@pytest.mark.parametrize("flies", [False, True])
def test_what_a_rod_does_not_let_part_does_not_rebound(flies):
    """The bob comes, along its circle, to touch a ball that lies on the line from the pin through it:
    no impulse there moves it, alone and as another impact happens."""
    free = ist.simulate(swings((9, 9, 9), False), SPARSE, h=H, duration=H)
    place = free.position[-1, 0]
    run = ist.simulate(swings(place * (0.5 + 2 * R) / 0.5, flies), SPARSE, h=H, duration=H)
    touched = run.contact_names.index(("bob", "stop"))
    assert abs(run.contacts.gap[0, touched]) < 1e-12 < run.contacts.gap_start[0, touched]
    assert list(np.atleast_1d(run.h)) == ([H, 0.0] if flies else [H])
    np.testing.assert_allclose(run.velocity[-1, 0], free.velocity[-1, 0], rtol=0, atol=1e-12)
    assert max(np.max(values) for values in run.certificate.values()) < 1e-12
    assert run.velocity[-1, 1, 2] == pytest.approx(-E if flies else 1.0, abs=1e-12)


def at_impact(run, row):
    """What the certificate of the impact in this `row` of a run is of."""
    scene = hits(ist.Newton(E))
    system, _ = scene.build(contacts=False)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    states = [State(run.time[k], run.position[k], run.orientation[k], run.velocity[k]) for k in range(row - 1, row + 2)]
    names = list(known.names)
    pairs = np.array([[names.index(name) for name in pair] for pair in run.contact_names])
    step, impact = (jax.tree.map(lambda a, k=k: np.asarray(a)[k], run.contacts) for k in (row - 1, row))
    touched = ~np.isnan(step.gap)
    step, impact = (
        dataclasses.replace(
            jax.tree.map(lambda a: a[touched], dataclasses.replace(record, joints=None)), joints=record.joints
        )
        for record in (step, impact)
    )
    return known, system, states, pairs[touched], step, impact


def told(known, system, states, pairs, step, impact):
    found = rebound_violations(known, system, tuple(states), pairs, step, impact, H)
    return {name: float(np.max(values)) for name, values in found.items()}


def without(record, *numbers):
    """A `record` in which these joints have no impulse."""
    joints = record.joints
    changed = {name: np.array(getattr(joints, name)) for name in ("impulse_1", "impulse_2", "multipliers")}
    for values in changed.values():
        values[list(numbers)] = 0.0
    return dataclasses.replace(record, joints=dataclasses.replace(joints, **changed))


def pulls(record, number, impulse=None):
    """A `record` in which this joint, that is a spring, has an impulse along its coordinate, which
    on its second body is `impulse` [N s] if that is given."""
    multipliers, on = np.array(record.joints.multipliers), np.array(record.joints.impulse_2)
    multipliers[number, 0] = 0.1
    on[number, 2] = on[number, 2] if impulse is None else impulse
    joints = dataclasses.replace(record.joints, multipliers=multipliers, impulse_2=on)
    return dataclasses.replace(record, joints=joints)


def test_the_certificate_knows_what_joints_answer(found):
    """A dumbbell of which an impact moves one ball alone, and a slide that it moves beyond its
    limit: momenta and the laws of contact hold."""
    run = found[ist.Newton]
    known, system, states, pairs, step, impact = at_impact(run, 2)
    assert max(told(known, system, states, pairs, step, impact).values()) < 1e-12
    rod, spring = (run.joint_names.index(name) for name in ("rod", "spring"))
    assert told(known, system, states, pairs, step, without(impact, rod))["impact"] > 0.01
    assert told(known, system, states, pairs, step, pulls(impact, spring))["closure rate"] > 0.01
    torn = np.array(states[1].velocity)
    torn[[run.names.index(name) for name in ("end 0", "thrown")], 2] = (1 + E) / 2, (1 - E) / 2
    normal = np.where(impact.normal_impulse > 0, (1 + E) / 2, 0.0)
    apart = dataclasses.replace(without(impact, rod), normal_impulse=normal)
    seen = told(known, system, [*states[:2], dataclasses.replace(states[2], velocity=torn)], pairs, step, apart)
    assert seen.pop("closure rate") > 0.1
    assert max(seen.values()) < 1e-10

    known, system, states, pairs, step, impact = at_impact(run, 4)
    limit = run.joint_names.index("low limit of guide from above")
    beyond, normal = np.array(states[2].velocity), np.array(impact.normal_impulse)
    # the step has stopped half of the approach
    P = (E + 0.5) / 2
    beyond[[run.names.index(name) for name in ("slide from above", "from above")], 2] = -P, P - 0.5
    normal[[{known.names[part] for part in pair} == {"slide from above", "from above"} for pair in pairs]] = P
    moved = dataclasses.replace(without(impact, limit), normal_impulse=normal)
    seen = told(known, system, [*states[:2], dataclasses.replace(states[2], velocity=beyond)], pairs, step, moved)
    assert seen.pop("closure rate") > 0.1
    assert max(seen.values()) < 1e-10

    # the slide that is lifted, held by a limit that pulls
    held, normal = np.array(states[2].velocity), np.array(impact.normal_impulse)
    held[[run.names.index(name) for name in ("slide from below", "from below")], 2] = 0.0, -E
    normal[[{known.names[part] for part in pair} == {"slide from below", "from below"} for pair in pairs]] = 0.75 + E
    joints, changed = impact.joints, {}
    for name in ("impulse_1", "impulse_2", "multipliers"):
        changed[name] = np.array(getattr(joints, name))
        pushes = changed[name][limit] / joints.impulse_2[limit, 2]
        changed[name][run.joint_names.index("low limit of guide from below")] = -(1 + E) * pushes
    pulled = dataclasses.replace(impact, normal_impulse=normal, joints=dataclasses.replace(joints, **changed))
    seen = told(known, system, [*states[:2], dataclasses.replace(states[2], velocity=held)], pairs, step, pulled)
    assert seen.pop("closure rate") > 0.1
    assert max(seen.values()) < 1e-10


@pytest.mark.parametrize("impulse", [-40.0, 0.0, 40.0])
def test_what_a_spring_gives_in_the_step_is_energy_that_bodies_bring(found, impulse):
    """The slide that is lifted leaves the step with .25 m/s or so: of a spring that pushed it up,
    impulse times speed; of one that pushed it down, as of none, nothing."""
    run = found[ist.Newton]
    known, system, states, pairs, step, _ = at_impact(run, 4)
    pushed, slide = pulls(step, run.joint_names.index("spring"), impulse), run.names.index("slide from below")
    before, end = (rebounds._impact(known, system, *states[:2], pairs, own, H, False) for own in (step, pushed))
    work = np.zeros(len(run.names))
    speed = states[1].velocity[slide, 2]
    work[slide] = max(impulse * speed, 0.0)
    assert speed > 0.2
    brought = end.brought - before.brought
    none = np.zeros((0, 2), int), np.zeros((0, 2, 6))
    of, islands = linked(system, states[1], before.mass), np.arange(len(run.names) + 1)
    told = of.given_by(system, islands, *none, pushed.joints, states[1].velocity)
    for energies in (brought, told):
        np.testing.assert_allclose(energies[[slide]], work[[slide]], rtol=0, atol=1e-9)


def test_what_a_motor_gives_in_the_step_is_energy_that_bodies_bring():
    """A ball falls .02 m onto a cart that a motor brings to .5 m/s across, which an impact between
    centres .005 m beside each other hardly feels: the ball leaves with e of its speed."""
    gap, speed, e = 0.02, 3.0, 0.9
    scene = ist.Scene(dimension=2, gravity=(0, -9.81))
    post = scene.add_fixed(name="post", shape=shapes.Disc(R), position=(0, -3))
    cart = scene.add_body(name="cart", shape=shapes.Disc(0.3), mass=1.0, position=(0, 0))
    scene.add_body(name="ball", shape=shapes.Disc(R), mass=0.1, position=(0, 0.3 + R + gap), velocity=(0, -speed, 0))
    scene.add_joint(post, cart, ist.Slider((0, 3), (1, 0), (0, 0), (1, 0)), name="guide")
    scene.add_motor("guide", speed=0.5, most=200.0)
    scene.add_contacts(friction=0.0, restitution=ist.Newton(e))
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.01)
    assert list(run.h) == [0.01, 0.0]
    met = (speed + np.sqrt(speed**2 + 4 * 9.81 * gap)) / 2  # (speed + g t) t = gap in the part t of the step
    assert run.velocity[-1, 1, 1] == pytest.approx(e * met, rel=5e-3)


@pytest.mark.parametrize(
    ("rubs", "settings", "finds"), [(None, {}, True), (0.1, {}, False), (None, {"impacts": "sequential"}, False)]
)
def test_many_pairs_are_found_where_such_a_run_knows_what_rebounds_and_joints_do(rubs, settings, finds):
    scene = ist.Scene()
    balls = [scene.add_body(name=f"{k}", shape=shapes.Sphere(R), mass=1.0, position=(k, 0, 1)) for k in range(46)]
    friction = None if rubs is None else ist.JointFriction(rubs, radius=0.01)
    scene.add_joint(*balls[:2], ist.BallJoint((0.5, 0, 0), (-0.5, 0, 0), friction=friction), name="pivot")
    scene.add_contacts(friction=0.1, restitution=ist.Newton(0.5))
    assert scene.pair_count() > 1000
    assert finds_pairs(scene, ist.GeometricallyImplicit(**settings)) == finds
