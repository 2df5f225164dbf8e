"""Compliant contact: the law in both of its forms, rest depth, restitution, the rigid limit, and
what certificates say of it, in the implicit stepper, the convex one and its NCP; and order five,
with events, in RadauContact. Scenes are planar."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import implicit_stepper as ist
import shapes
from implicit_stepper.model.bodies import State
from implicit_stepper.runtime.compilation import jit

G, MASS, K = 9.81, 1.0, 100.0
IMPLICIT = ist.GeometricallyImplicit()
CONVEX = ist.Convex(scheme="symplectic")
NCP = ist.Convex(scheme="symplectic", approximation="ncp")
STEPPERS = {"implicit": IMPLICIT, "convex": CONVEX, "ncp": NCP}


def disc(compliance, *, velocity=(0.0, 0.0), gap=0.0, gravity=G, mu=0.0):
    """A disc too heavy to roll, on a line."""
    scene = ist.Scene(dimension=2, gravity=(0, -gravity), length_scale=1.0, acceleration_scale=G)
    body = scene.add_body(
        name="disc", shape=shapes.Disc(1.0), mass=MASS, inertia=1e12, position=(0, 1 + gap), velocity=(*velocity, 0)
    )
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    scene.add_contact(floor, body, friction=mu, compliance=compliance)
    return scene


@functools.cache
def compiled(stepper):
    return jit(stepper.step), jit(stepper.certificate)


@functools.cache
def start(kind):
    return jit(kind().init)  # the same whatever the settings


def run(stepper, scene, h, count):
    """The system, the states before and after each of `count` solved steps, and their contacts."""
    system, state = jax.tree.map(jnp.asarray, scene.build())
    step, _ = compiled(stepper)
    memory, states, contacts = start(type(stepper))(system, state), [state], []
    for _ in range(count):
        result = step(system, states[-1], memory, h)
        assert result.result == ist.Result.SOLVED
        memory = result.memory
        states.append(result.state)
        contacts.append(result.contacts)
    return system, states, contacts


def restitution(tau, gap):
    """Speed at which the force (-k x - tau k x')_+ lets go of a mass that came at 1 m/s, met at
    `gap`; by an independent integrator."""

    def force(_, y):
        return -K * y[0] - tau * K * y[1]

    force.terminal, force.direction = True, -1
    motion = solve_ivp(
        lambda t, y: [y[1], force(t, y) / MASS], (0, 2), [gap, -1.0], events=force, rtol=1e-11, atol=1e-13, first_step=1e-6
    )
    return motion.y[1, -1]


@pytest.mark.parametrize(("tau", "published"), [(0.01, 0.858758), (0.05, 0.506277), (0.10, 0.298436)])
def test_a_bounce_tends_to_the_restitution_of_the_law(tau, published):
    """Met where the bodies touch: with zeta = tau sqrt(k/m) / 2 and r = sqrt(1 - zeta^2) the force
    of the damped oscillation ends at the phase r omega t = arctan2(2 zeta r, 2 zeta^2 - 1), and the
    speed there is exp(-zeta omega t)."""
    zeta = tau * np.sqrt(K / MASS) / 2
    root = np.sqrt(1 - zeta**2)
    closed = np.exp(-zeta / root * np.arctan2(2 * zeta * root, 2 * zeta**2 - 1))
    assert closed == pytest.approx(published, abs=1e-6)
    assert restitution(tau, 0.0) == pytest.approx(closed, abs=1e-9)
    for stepper in (IMPLICIT, CONVEX):
        errors = []
        for h in (2e-3, 1e-3):
            scene = disc(ist.Compliance(K, tau), velocity=(0, -1), gravity=0.0)
            _, states, contacts = run(stepper, scene, h, round(0.35 / h))
            assert contacts[-1].normal_impulse[0] == pytest.approx(0, abs=1e-12)
            errors.append(float(states[-1].velocity[0, 1]) - closed)
        assert errors[0] / errors[1] == pytest.approx(2, abs=0.1)
        assert abs(errors[1]) <= 0.02


def test_the_damper_acts_before_the_bodies_touch():
    """S (2) as it is written: met from afar its force begins at psi = tau |v_n|, and takes more
    than where bodies touch."""
    expected = restitution(0.1, 0.1)
    assert expected < 0.7 * restitution(0.1, 0.0)
    errors = []
    for h in (2e-3, 1e-3):
        scene = disc(ist.Compliance(K, 0.1), velocity=(0, -1), gap=0.1, gravity=0.0)
        errors.append(float(run(IMPLICIT, scene, h, round(0.5 / h))[1][-1].velocity[0, 1]) - expected)
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("name", STEPPERS)
def test_both_forms_of_the_law_hold_on_the_way_to_rest(name):
    """(-k psi - tau k v_n)_+ h, S (2), and min(p_n, psi + tau v_n + c p_n/h) = 0, S (3), with the
    gap at the end of a step; at rest the depth is m g / k. On a flat floor that gap is psi + h v_n,
    which the convex stepper takes for it."""
    tau, h = 0.1, 0.01
    _, states, contacts = run(STEPPERS[name], disc(ist.Compliance(K, tau), velocity=(0, -1), gap=0.2), h, 300)
    p_n, psi = (np.array([float(getattr(c, field)[0]) for c in contacts]) for field in ("normal_impulse", "gap"))
    v_n = np.array([float(s.velocity[0, 1]) for s in states[1:]])
    assert p_n[0] == pytest.approx(0, abs=1e-15)
    assert p_n == pytest.approx(h * np.maximum(-K * psi - tau * K * v_n, 0), abs=1e-12 * K)
    shifted = psi + tau * v_n + p_n / h / K
    assert np.max(np.abs(np.minimum(p_n, shifted))) <= 1e-12
    assert psi[-1] == pytest.approx(-MASS * G / K, abs=1e-6)


@pytest.mark.parametrize("name", ["implicit", "ncp"])
def test_stiff_contact_tends_to_rigid_contact_linearly(name):
    """Where a sliding block comes to: without compliance it stays at the gap 0 and loses mu g h a
    step, in closed form."""
    mu, h, count = 0.5, 0.01, 20
    rigid = np.array([np.sum(h * (2 - mu * G * h * np.arange(1, count + 1))), 0.0])
    errors = []
    for stiffness in (1e6, 2e6):
        compliance = ist.Compliance(stiffness, 0.001)
        _, states, contacts = run(STEPPERS[name], disc(compliance, velocity=(2, 0), mu=mu), h, count)
        end = np.array([float(states[-1].position[0, 0]), float(contacts[-1].gap[0])])
        errors.append(end - rigid)
        assert contacts[-1].normal_impulse[0] == pytest.approx(MASS * G * h, rel=1e-6)
    assert errors[0][1] == pytest.approx(-MASS * G / 1e6, rel=1e-6)
    assert errors[0] / errors[1] == pytest.approx(2, rel=1e-3)


def test_a_compliant_block_glides_by_the_dissipation_time_too():
    """Convex and sliding: psi = (h + tau) (mu |v_t| - v_n - p_n (R_n + mu^2 R_t)), exactly, with
    R_n = c / (h (h + tau)) and R_t = sigma_s w; the gap is near (h + tau) mu |v_t|."""
    mu, tau, h, k = 0.5, 0.02, 0.005, 1e5
    # J A^-1 J^T is the identity (the spin does not answer), divided by its 2 axes
    w = np.sqrt(2) / 2
    scene = disc(ist.Compliance(k, tau), velocity=(6, 0), gap=(h + tau) * mu * 6, mu=mu)
    system, states, contacts = run(CONVEX, scene, h, 40)
    v = np.array([s.velocity[0, :2] for s in states[1:]])
    p_n, psi = (np.array([float(getattr(c, field)[0]) for c in contacts]) for field in ("normal_impulse", "gap_start"))
    assert np.min(p_n) > 0
    glide = (h + tau) * (mu * v[:, 0] - v[:, 1] - p_n * (1 / (k * h * (h + tau)) + mu**2 * 1e-3 * w))
    assert psi == pytest.approx(glide, abs=1e-12)
    assert abs(psi[-1] / ((h + tau) * mu * v[-1, 0]) - 1) <= (h + tau) * mu * G / v[-1, 0]
    certificate = compiled(CONVEX)[1](system, states[-2], states[-1], contacts[-1], h)
    assert max(float(jnp.max(entry)) for entry in certificate.values()) <= 1e-10


@pytest.mark.parametrize("name", ["implicit", "ncp"])
def test_certificates_accept_the_law_and_notice_when_it_is_broken(name):
    """During a bounce, overlapping: another impulse or another gap violates the law by what was
    changed."""
    stepper, h = STEPPERS[name], 0.01
    system, states, contacts = run(stepper, disc(ist.Compliance(K, 0.01), velocity=(0.5, -1), mu=0.3), h, 12)
    certificate = compiled(stepper)[1]

    def violations(contacts):
        found = certificate(system, states[-2], states[-1], contacts, h)
        return {key: float(jnp.max(value)) for key, value in found.items()}

    assert contacts[-1].gap[0] < -0.05
    assert max(violations(contacts[-1]).values()) <= 1e-10
    law = "p_n _|_ f(a2)" if name == "implicit" else "complementarity"
    field = "gap" if name == "implicit" else "gap_start"
    for changes in ({"normal_impulse": 1e-6}, {field: 1e-6}):
        tampered = {key: getattr(contacts[-1], key) + change for key, change in changes.items()}
        assert violations(dataclasses.replace(contacts[-1], **tampered))[law] > 1e-7


def test_a_compliant_bounce_creates_no_energy():
    """The certificate's bound on the energy holds while the spring gives back what it stored, and
    notices twice as much."""
    h = 0.01
    system, states, contacts = run(IMPLICIT, disc(ist.Compliance(K), velocity=(0, -4), gravity=0.0), h, 40)
    certificate = compiled(IMPLICIT)[1]
    total = [MASS * float(s.velocity[0, 1]) ** 2 / 2 + K * min(float(s.position[0, 1]) - 1, 0) ** 2 / 2 for s in states]
    assert np.max(np.diff(total)) <= 1e-12
    for before, after, contact in zip(states[:-1], states[1:], contacts, strict=True):
        assert float(certificate(system, before, after, contact, h)["energy"][0]) == 0
    faster = dataclasses.replace(states[-1], velocity=1.5 * states[-1].velocity)
    assert float(certificate(system, states[-2], faster, contacts[-1], h)["energy"][0]) > 0.1


def oscillation(depth, speed, tau, gravity=G, mass=MASS):
    """Height and velocity of a mass on the spring and the damper as functions of the time after psi
    = `depth`, psi' = `speed`, in closed form."""
    damping, rest = tau * K / mass / 2, -mass * gravity / K
    omega = np.sqrt(K / mass - damping**2)
    cosine, sine = depth - rest, (speed + damping * (depth - rest)) / omega

    def height(t):
        return rest + np.exp(-damping * t) * (cosine * np.cos(omega * t) + sine * np.sin(omega * t))

    def velocity(t):
        along, across = sine * omega - damping * cosine, cosine * omega + damping * sine
        return np.exp(-damping * t) * (along * np.cos(omega * t) - across * np.sin(omega * t))

    return height, velocity


def test_stages_have_order_five_while_in_contact():
    """A sliding disc that swings on its contact, with fixed steps: friction is mu times the force,
    so that the way across is mu times what the spring and the damper have given. Gap, both
    velocities and forces."""
    tau, mu, time = 0.02, 0.1, 0.5
    height, velocity = oscillation(-0.1, 0.3, tau)
    errors = []
    for h in (0.05, 0.025):
        scene = disc(ist.Compliance(K, tau), velocity=(2, 0.3), gap=-0.1, mu=mu)
        run = ist.simulate(scene, ist.RadauContact(), h=h, duration=time)
        t, force = run.time, run.contacts.stages.contacts.normal_impulse[:, -1, 0] / h
        errors.append(
            [
                np.max(np.abs(run.position[:, 0, 1] - 1 - height(t))),
                np.max(np.abs(run.velocity[:, 0, 1] - velocity(t))),
                np.max(np.abs(run.velocity[:, 0, 0] - (2 - mu * (velocity(t) - 0.3 + G * t)))),
                np.max(np.abs(force + K * (height(t[1:]) + tau * velocity(t[1:])))),
            ]
        )
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 5.0, atol=0.15)
    assert np.max(errors[1]) <= 2e-6


@pytest.mark.parametrize("tau", [0.0, 0.05])
def test_landing_and_lifting_off_are_events_without_impact(tau):
    """Dropped from afar: the force begins at psi = -tau v_n and ends where it would pull; in closed
    form. Friction stops the disc while it is in contact."""
    gap, mu, fast = 0.3, 0.1, 0.3
    scene = disc(ist.Compliance(K, tau), velocity=(fast, 0), gap=gap, mu=mu)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-10, duration=0.7)
    lands = brentq(lambda t: gap - G * t**2 / 2 - tau * G * t, 0, 1, xtol=1e-15)
    height, velocity = oscillation(gap - G * lands**2 / 2, -G * lands, tau)
    stops = brentq(lambda t: fast - mu * (velocity(t) + G * (lands + t)), 0, 0.3, xtol=1e-15)
    expected = [(lands, "closes"), (lands + stops, "sticks")]
    if tau == 0:  # otherwise the damper keeps it
        lifts = brentq(height, 0.2, 0.45, xtol=1e-15)
        expected.append((lands + lifts, "opens"))
    assert [event.kind for event in run.events] == [kind for _, kind in expected]
    np.testing.assert_allclose([event.time for event in run.events], [time for time, _ in expected], rtol=0, atol=1e-9)
    assert run.counts["impacts"] == run.counts["one-stage steps"] == 0
    carries = (run.time > lands) & (run.time < (expected[-1][0] if tau == 0 else 0.7))
    t, y, v = run.time[carries] - lands, run.position[carries, 0, 1] - 1, run.velocity[carries, 0, 1]
    np.testing.assert_allclose(y, height(t), rtol=0, atol=1e-9)
    np.testing.assert_allclose(v, velocity(t), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("tau", "gap", "met"), [(0.05, 0.0, 0.0), (0.1, 0.3, 0.1)])
def test_chosen_steps_bounce_as_the_law_does(tau, gap, met):
    """Met where the bodies touch, when the damper's force begins with a jump, and from afar, at psi
    = tau |v_n|."""
    scene = disc(ist.Compliance(K, tau), velocity=(0, -1), gap=gap, gravity=0.0)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-10, duration=0.7)
    assert run.velocity[-1, 0, 1] == pytest.approx(restitution(tau, met), abs=1e-8)
    assert [event.kind for event in run.events] == (["opens"] if gap == met else ["closes", "opens"])


@pytest.mark.thorough
def test_a_rigid_contact_hits_a_disc_on_a_spring():
    """Two discs above each other: the upper one hits the lower one, which its spring still carries;
    the impulse is between the two, and they go on as one mass. All in closed form."""
    scene = ist.Scene(dimension=2)
    below, above = (
        scene.add_body(name=name, shape=shapes.Disc(0.5), mass=MASS, position=(0, height))
        for name, height in (("below", 0.6), ("above", 1.7))
    )
    floor, tau = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1))), 0.02
    scene.add_contact(below, above, friction=0.3)
    scene.add_contact(floor, below, friction=0.3, compliance=ist.Compliance(K, tau))
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-10, duration=0.5)
    lands = brentq(lambda t: 0.1 - G * t**2 / 2 - tau * G * t, 0, 1, xtol=1e-15)
    height, velocity = oscillation(0.1 - G * lands**2 / 2, -G * lands, tau)
    hits = brentq(lambda t: 0.2 - G * t**2 / 2 - height(t - lands), lands, 0.4, xtol=1e-15)
    common = (velocity(hits - lands) - G * hits) / 2
    height, velocity = oscillation(height(hits - lands), common, tau, mass=2 * MASS)
    assert [event[1:] for event in run.events] == [(1, "closes"), (0, "closes")]
    np.testing.assert_allclose([event.time for event in run.events], [lands, hits], rtol=0, atol=1e-9)
    assert run.counts["impacts"] == 1
    np.testing.assert_allclose(run.position[-1, :, 1], height(0.5 - hits) + np.array([0.5, 1.5]), rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.velocity[-1, :, 1], velocity(0.5 - hits), rtol=0, atol=1e-8)


@pytest.mark.thorough
def test_a_face_lands_on_a_spring_without_impact():
    """A rectangle falls flat on the floor while it moves along it: it stays flat, in closed form,
    in smooth steps only."""
    gap, fast, mu, tau = 0.2, 0.5, 0.1, 0.02
    scene = ist.Scene(dimension=2)
    shape = shapes.Polygon([(-0.5, -0.2), (0.5, -0.2), (0.5, 0.2), (-0.5, 0.2)])
    body = scene.add_body(name="block", shape=shape, mass=MASS, position=(0, 0.2 + gap), velocity=(fast, 0, 0))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    scene.add_contact(floor, body, friction=mu, compliance=ist.Compliance(K, tau))
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-9, duration=0.35)
    lands = brentq(lambda t: gap - G * t**2 / 2 - tau * G * t, 0, 1, xtol=1e-15)
    height, velocity = oscillation(gap - G * lands**2 / 2, -G * lands, tau)
    assert run.events[0][1:] == (0, "closes")
    assert run.events[0].time == pytest.approx(lands, abs=1e-12)
    assert run.counts["impacts"] == run.counts["one-stage steps"] == 0
    end = 0.35 - lands
    assert run.position[-1, 0, 1] == pytest.approx(0.2 + height(end), abs=1e-8)
    np.testing.assert_allclose(
        run.velocity[-1, 0], [fast - mu * (velocity(end) + G * 0.35), velocity(end), 0.0], rtol=0, atol=1e-7
    )


def test_certificates_of_stages_hold_the_law_and_no_eta():
    """A force, a gap or an eta of a stage that is another violates the law by what was changed."""
    scene, h = disc(ist.Compliance(K, 0.02), velocity=(2, 0.3), gap=-0.1, mu=0.1), 0.05
    run = ist.simulate(scene, ist.RadauContact(), h=h, duration=0.5)
    system, _ = scene.build()
    first, last = (
        State(*(getattr(run, name)[i] for name in ("time", "position", "orientation", "velocity"))) for i in (0, 1)
    )
    contacts = jax.tree.map(lambda a: a[0], run.contacts)
    certificate = compiled(ist.RadauContact())[1]

    def violation(name, **changes):
        own = contacts.stages
        if "eta" not in changes:
            changes = {"contacts": dataclasses.replace(own.contacts, **changes)}
        changed = dataclasses.replace(contacts, stages=dataclasses.replace(own, **changes))
        return float(certificate(system, first, last, changed, h)[name][0])

    law, own = "p_n _|_ f(a2)", contacts.stages
    assert violation(law) <= 1e-12
    assert violation("eta") == 0
    assert violation(law, normal_impulse=own.contacts.normal_impulse + 1e-6) > 1e-7
    assert violation(law, gap=own.contacts.gap + 1e-6) > 1e-7
    assert violation("eta", eta=own.eta + 1e-6) > 1e-7


def test_scenes_keep_compliant_and_rigid_contacts_apart_and_in_order():
    scene = ist.Scene(dimension=2)
    bodies = [scene.add_body(name=str(i), shape=shapes.Disc(1.0), mass=1.0, position=(3 * i, 1)) for i in range(3)]
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    for i, body in enumerate(bodies):
        scene.add_contact(floor, body, compliance=None if i == 1 else ist.Compliance(50.0 * (i + 1), 0.1 * i))
    system, _ = scene.build()
    compliant, rigid = system.groups
    assert (compliant.numbers, rigid.numbers) == ((0, 2), (1,))
    assert compliant.compliance == pytest.approx([1 / 50, 1 / 150])
    assert compliant.dissipation_time == pytest.approx([0, 0.2])
    assert rigid.compliance is None
    assert rigid.dissipation_time is None


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"stiffness": 0.0}, "stiffness"),
        ({"stiffness": -1.0}, "stiffness"),
        ({"stiffness": float("inf")}, "stiffness"),
        ({"dissipation_time": -0.1}, "dissipation_time"),
        ({"dissipation_time": float("nan")}, "dissipation_time"),
    ],
)
def test_bad_values_are_refused(changes, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        ist.Compliance(**{"stiffness": 1.0, **changes})


def test_a_compliance_that_is_none_is_refused():
    with pytest.raises(ValueError, match="`compliance` = 100.0 must be a Compliance"):
        disc(100.0)
