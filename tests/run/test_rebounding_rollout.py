"""Rollouts of scenes whose bodies rebound: they are the runs of `simulate`, their derivatives those
of the steps' closed form, and what they do not know they say."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes

G, H = 9.81, 0.01
STEPPER = ist.GeometricallyImplicit()


def discs(law, friction=0.3):
    """A disc that approaches the floor on which it lies, with a spin, and one above."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    for name, x, gap, velocity in (("lies", 0, 0.0, (0.5, -0.6, 3)), ("falls", 3, 0.088, (0, -1, 0))):
        disc = scene.add_body(name=name, shape=shapes.Disc(0.1), mass=1.0, position=(x, 0.1 + gap), velocity=velocity)
        scene.add_contact(floor, disc, friction=friction, restitution=law)
    return scene


@pytest.fixture(scope="module")
def rolled():
    """`discs` with e = .6 for .4 s, by `simulate` and as a rollout."""
    scene, steps = discs(ist.Newton(0.6)), 40
    run = ist.simulate(scene, STEPPER, h=H, duration=steps * H, progress=False)
    system, start = scene.build()
    return run, jax.jit(lambda start: ist.rollout(system, STEPPER, H, steps, start=start))(start)


def test_a_rollout_is_the_run_of_simulate(rolled):
    """Impacts at the start and within steps, several in one, within the solver's tolerance, 1e-12
    of units."""
    run, found = rolled
    assert np.all(np.asarray(found.result) == 0)
    assert float(jnp.max(found.violation)) <= 1e-10
    ends = [np.flatnonzero(np.abs(run.time - k * H) < 1e-12)[-1] for k in range(41)]
    np.testing.assert_allclose(found.states.position[1:], run.position[ends[1:]], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.states.velocity[1:], run.velocity[ends[1:]], rtol=0, atol=1e-11)
    impacts, times = np.flatnonzero(run.h == 0), np.asarray(found.impacts)
    assert len(impacts) > 5
    np.testing.assert_allclose(np.sort(times[~np.isnan(times)]), run.time[impacts], rtol=0, atol=1e-13)
    assert impacts[0] == 0
    assert np.max(np.sum(~np.isnan(times[1:]), axis=1)) > 1


def test_contacts_of_a_step_have_the_impulses_of_all_its_parts(rolled):
    """With what the loads give, they are what momenta change by."""
    run, found = rolled
    change = np.diff(np.asarray(found.states.velocity), axis=0)
    np.testing.assert_allclose(found.contacts.normal_impulse, change[:, :, 1] + G * H, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.abs(found.contacts.friction_impulse[..., 0]), np.abs(change[:, :, 0]), rtol=0, atol=1e-12)
    assert np.max(np.abs(change[:, 0, 0])) > 0.1


def closed_form(parameters):
    """Height, velocity and the first two times of impacts of what falls by seven steps of `h`, each
    cut where the height vanishes: v' = v - g s and z + s v' = 0."""
    e, z, v, h = parameters
    time, times = 0.0, []
    for _ in range(7):
        left = h
        if z + left * (v - G * left) < 0:
            size = (v + jnp.sqrt(v * v + 4 * G * z)) / (2 * G)
            times.append(time + size)
            z, v, left = 0.0, -e * (v - G * size), h - size
        v = v - G * left
        z, time = z + left * v, time + h
    return jnp.stack([z, v, *times])


@pytest.fixture(scope="module")
def of_steps():
    """What `closed_form` gives, of a disc, by a rollout, and its results, as a function of the same
    and the arguments of `rollout` by name."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.13))
    scene.add_contact(floor, disc, friction=0, restitution=ist.Newton(0.5))
    system, start = scene.build()

    def found(parameters, **settings):
        e, z, v, h = parameters
        from_here = ist.State(start.time, jnp.array([[0.0, 0.1 + z]]), start.orientation, jnp.array([[0.0, v, 0.0]]))
        made = dataclasses.replace(system, groups=(dataclasses.replace(system.groups[0], restitution=e[None]),))
        found = ist.rollout(made, STEPPER, h, 7, start=from_here, **settings)
        times = jnp.sort(found.impacts.reshape(-1))[:2]
        state = found.states.position[-1, 0, 1:] - 0.1, found.states.velocity[-1, 0, 1:2]
        return jnp.concatenate([*state, times]), found.result

    return found


def test_derivatives_are_those_of_the_closed_form_of_the_steps(of_steps):
    """By restitution, height, velocity and h: what is left is the gap of an impact, 1e-8 m at
    most."""
    at = jnp.array([0.35, 0.004, -1.0, H])
    value, pull, _ = jax.vjp(jax.jit(of_steps), at, has_aux=True)
    exact = jax.jacfwd(closed_form)(at)
    np.testing.assert_allclose(value, closed_form(at), rtol=0, atol=1e-7)
    backward = jnp.stack([pull(row)[0] for row in jnp.eye(len(value))])
    np.testing.assert_allclose(backward, exact, rtol=0, atol=1e-6 * float(jnp.max(jnp.abs(exact))))


def test_side_by_side_and_with_few_states_kept_they_are_the_same(of_steps):
    """And a step whose length is no number is none."""
    at = jnp.array([[0.35, 0.004, -1.0, H], [0.3, 0.006, -1.1, H], [0.3, 0.006, -1.1, jnp.nan]])
    values, results = jax.jit(jax.vmap(functools.partial(of_steps, economical=True)))(at)
    for one, value in zip(at[:2], values, strict=False):
        np.testing.assert_allclose(value, closed_form(one), rtol=0, atol=1e-7)
    assert np.all(results[:2] == ist.Result.SOLVED)
    assert np.all(results[2] != ist.Result.SOLVED)


def test_what_closes_at_once_leaves_no_derivative():
    """Two discs that fall from one height, of which either might be the first."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    for x in (0, 3):
        disc = scene.add_body(name=f"at {x}", shape=shapes.Disc(0.1), mass=1.0, position=(x, 0.102), velocity=(0, -1, 0))
        scene.add_contact(floor, disc, friction=0, restitution=ist.Newton(0.8))
    system, start = scene.build()

    def ends(velocity):
        return ist.rollout(system, STEPPER, H, 1, start=dataclasses.replace(start, velocity=velocity)).states.velocity[-1]

    change = jnp.zeros((2, 3)).at[1, 1].set(1.0)
    end, slope = jax.jit(lambda velocity: jax.jvp(ends, (velocity,), (change,)))(start.velocity)
    np.testing.assert_allclose(end[:, 1], end[0, 1], rtol=0, atol=1e-12)
    assert float(end[0, 1]) > 0.5
    assert np.all(np.isnan(slope[:, 1]))


def test_more_impacts_than_a_step_may_have_are_told():
    """Two discs that land one after the other; with room for both they part."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    for x, gap in ((0, 0.002), (3, 0.006)):
        disc = scene.add_body(name=f"at {x}", shape=shapes.Disc(0.1), mass=1.0, position=(x, 0.1 + gap), velocity=(0, -1, 0))
        scene.add_contact(floor, disc, friction=0, restitution=ist.Poisson(0.8))
    system, start = scene.build()
    one, two = (
        jax.jit(lambda start, n=n: ist.rollout(system, STEPPER, H, 1, start=start, most_impacts=n))(start) for n in (1, 2)
    )
    assert int(one.result[0]) == ist.Result.MISSED_REBOUND
    assert np.all(np.isnan(one.states.position[1:]))
    assert int(two.result[0]) == ist.Result.SOLVED
    assert np.all(two.states.velocity[1, :, 1] > 0.5)


def test_what_a_rollout_does_not_know_of_rebounds_is_refused():
    """Faces, what sticks by a coefficient of its own, several stages, smoothed steps, numbers of
    impacts that are none, and a memory."""
    box = ist.Scene()
    floor = box.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    falls = box.add_body(name="box", shape=shapes.Box((0.1, 0.1, 0.1)), mass=1.0, position=(0, 0, 1))
    box.add_contact(floor, falls, restitution=ist.Newton(0.5))
    disc, sticks = discs(ist.Newton(0.5)), discs(ist.Newton(0.5), ist.FrictionEllipsoid(0.3, mu_s=0.4))
    for scene, stepper, more, told in (
        (box, STEPPER, {}, "floor and box have a `restitution` and meet in edges or faces"),
        (sticks, STEPPER, {}, "a `restitution` beside a `mu_s`"),
        (disc, ist.RadauContact(), {}, "`restitution`, which only runs of `simulate` know, .* and `rollout` by the former"),
        (disc, STEPPER, {"kappa": 1e-2}, "`kappa` smooths no `restitution`"),
        (disc, STEPPER, {"most_impacts": 0}, "`most_impacts` = 0"),
        (disc, STEPPER, {"memory": ()}, "`memory` is for scenes without a `restitution`"),
    ):
        system, start = scene.build()
        with pytest.raises(ValueError, match=told):
            ist.rollout(system, stepper, H, 2, start=start, **more)
