"""The certificate accepts a solved step and names the equation that a tampered one violates."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import fsolve
from scipy.spatial.transform import Rotation

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import certificate_mechanics as mechanics
from implicit_stepper.constraints import contact
from implicit_stepper.model import rotation
from implicit_stepper.model.records import no_contacts
from implicit_stepper.model.units import scales
from implicit_stepper.paper import scenes
from implicit_stepper.runtime.compilation import jit
from implicit_stepper.stepping import fallback
from implicit_stepper.stepping.fallback import pieces
from implicit_stepper.stepping.run_certificate import GAP_AT_START
from implicit_stepper.stepping.stepper import begin

H = 0.01


@pytest.fixture(scope="module")
def sliding_step():
    """Example 3 after .5 s, when contact 0 slides and contact 1 sticks: end and contacts of a step,
    and its violations."""
    _, _, *rest = stepped("one stage")
    return rest


def test_a_solved_step_is_certified(sliding_step):
    after, contacts, violated = sliding_step
    found = violated(after, contacts)
    assert max(found.values()) <= 1e-10
    assert {"momentum", "closest points", "gap", "p_n _|_ f(a2)", "friction", "cone", "sigma zeta", "dissipation"} <= set(
        found
    )


# what is changed, by how much, and which equations must notice; the units of docs/model.md give the
# size to expect
TAMPERED = [
    ("normal_impulse", 1e-6, {"momentum", "sigma zeta"}),
    ("normal_impulse", -1e-6, {"momentum", "cone"}),
    ("friction_impulse", 1e-6, {"momentum", "friction", "dissipation"}),
    ("point_1", 1e-6, {"closest points"}),
    ("point_2", 1e-6, {"closest points", "p_n _|_ f(a2)"}),
    ("normal", 1e-6, {"closest points"}),
    ("gap", -1e-6, {"gap", "closest points"}),
    ("multipliers_1", 1e-6, {"closest points"}),
]


@pytest.mark.parametrize(("name", "change", "expected"), TAMPERED, ids=[f"{t[0]} {t[1]:+}" for t in TAMPERED])
def test_each_tampered_quantity_is_noticed(sliding_step, name, change, expected):
    after, contacts, violated = sliding_step
    found = violated(after, dataclasses.replace(contacts, **{name: getattr(contacts, name) + change}))
    assert {key for key in expected if found[key] > 1e-8} == expected


def test_a_wrong_end_state_is_noticed(sliding_step):
    after, contacts, violated = sliding_step
    moved = dataclasses.replace(after, velocity=after.velocity + 1e-6)
    assert violated(moved, contacts)["momentum"] > 1e-6
    spun = dataclasses.replace(after, position=after.position + 1e-6)
    assert violated(spun, contacts)["closest points"] > 1e-8


def test_pulling_contacts_are_noticed(sliding_step):
    after, contacts, violated = sliding_step
    pulling = dataclasses.replace(contacts, normal_impulse=-contacts.normal_impulse)
    assert violated(after, pulling)["normal impulse"] > 0.1


def box_and_ellipsoid():
    """A box slides on its face with different friction along and across (1, 1, 0) of the floor; an
    ellipsoid flies over it, and would meet no friction."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    box = scene.add_body(
        name="box", shape=shapes.Box((0.3, 0.2, 0.1)), mass=1.0, position=(0, 0, 0.1), velocity=(1, 0.3, 0, 0, 0, 0.5)
    )
    egg = scene.add_body(
        name="egg", shape=shapes.Ellipsoid((0.3, 0.2, 0.1)), mass=1.0, position=(2, 0, 0.5), velocity=(0, 0, 0, 1, 2, 3)
    )
    scene.add_contact(floor, box, friction=ist.FrictionEllipsoid(mu=0.3, e_o=0.5, direction=(1, 1, 0)))
    scene.add_contact(floor, egg, friction=0.0)
    return scene


STEPS = {
    "one stage": (scenes.two_spheres, ist.GeometricallyImplicit(), 51),
    "one stage, faces and flight": (box_and_ellipsoid, ist.GeometricallyImplicit(), 20),
    "three stages": (scenes.two_spheres, ist.RadauContact(), 10),
}
# What nothing in the record of a step binds, only that of the step before: see `run_certificate`.
FREE = {"one stage": {"gap_start"}, "one stage, faces and flight": {"gap_start"}, "three stages": set()}


@pytest.fixture(scope="module", params=STEPS)
def certified(request):
    """The name of a case, and what `last_step` gives of it."""
    return request.param, *stepped(request.param)


@functools.cache
def stepped(name):
    return last_step(*STEPS[name])


def last_step(build, stepper, steps):
    """The system; the last step's start, end and contacts; and its largest violations by name, as a
    function of end and contacts."""
    system, state = jax.tree.map(jnp.asarray, build().build())
    memory = begin(stepper, system, state)
    for done in pieces(stepper, system, state, memory, H, steps, 1e-10):
        assert done.solved
        if len(done.record.result):
            states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), state, done.record.state)
            contacts = jax.tree.map(lambda a: jnp.asarray(a[-1]), done.record.contacts)
        state = done.state
    before, after = (jax.tree.map(lambda a, i=i: a[i], states) for i in (-2, -1))
    certificate = jit(stepper.certificate)

    def violated(after, contacts, h=H):
        found = certificate(system, before, after, contacts, h)
        return {name: float(jnp.max(v)) for name, v in found.items()}

    return system, before, after, contacts, violated


def test_every_number_of_a_record_is_bound(certified):
    """Each entry of each field of the end state and of the contacts, changed by 1e-9 of the field
    or of its unit."""
    name, *step = certified
    assert unbound(*step) == FREE[name]


# The gap at the end belongs to the next step; Montana's equations move the contacts of `Explicit`,
# from what its record does not hold.
LAGGED = {
    ist.ConeComplementarity(): {"gap"},
    ist.Linearized(): {"gap"},
    ist.Convex(): {"gap"},
    # points along impulses
    ist.Explicit(): {"gap", "gap_start", "multipliers_1", "multipliers_2", "point_1", "point_2"},
}


@pytest.mark.parametrize("stepper", LAGGED, ids=lambda stepper: type(stepper).__name__)
def test_every_number_of_a_comparators_record_is_bound(stepper):
    assert unbound(*last_step(scenes.two_spheres, stepper, 3)) == LAGGED[stepper]


def unbound(system, _, after, contacts, violated):
    """Fields with entries that may be changed by 1e-9 of the field, or of its unit, without a
    violation of 1e-10."""
    speed, length = float(system.acceleration) * H, float(system.length)
    impulse = float(np.max(system.mass)) * speed
    units = dict.fromkeys(("velocity", "rates", "slip", "sigma"), speed) | {"time": H}
    units |= dict.fromkeys(("normal_impulse", "friction_impulse", "eta"), impulse)
    assert max(violated(after, contacts).values()) <= 1e-12
    leaves, tree = jax.tree_util.tree_flatten_with_path((after, contacts))
    passed = set()
    for i, (path, leaf) in enumerate(leaves):
        field = path[-1].name
        size = max(np.max(np.abs(leaf), initial=0.0), units.get(field, length))
        for j in range(leaf.size):
            other = [np.array(value) for _, value in leaves]
            other[i].reshape(-1)[j] += 1e-9 * size
            if max(violated(*jax.tree.unflatten(tree, other)).values()) <= 1e-10:
                passed.add(field)
    return passed


@pytest.mark.parametrize("step", [0, 2])
def test_gaps_at_the_start_are_those_of_the_step_before(monkeypatch, step):
    """Of each contact, changed by 1e-9 of the scene's length in what a run of steps of one stage
    records."""
    scene, stepper = box_and_ellipsoid(), ist.GeometricallyImplicit()
    length, found = float(scene.build()[0].length), fallback.advance
    run = ist.simulate(scene, stepper, h=H, duration=3 * H)
    assert np.max(run.certificate[GAP_AT_START]) <= 1e-12
    for contact_number in range(2):

        def tampered(*arguments, number=contact_number):
            state, memory, record = found(*arguments)
            gaps = np.array(record.contacts.gap_start)
            at = step - round(float(arguments[2].time) / H)  # of these steps
            if 0 <= at < arguments[5]:
                gaps[at, number] += 1e-9 * length
            return state, memory, dataclasses.replace(record, contacts=dataclasses.replace(record.contacts, gap_start=gaps))

        monkeypatch.setattr(fallback, "advance", tampered)
        with pytest.raises(ist.StepError, match=GAP_AT_START) as caught:
            ist.simulate(scene, stepper, h=H, duration=3 * H)
        assert set(caught.value.certificate) == {GAP_AT_START}
        assert len(caught.value.trajectory) == step
        np.testing.assert_array_equal(caught.value.state.position, run.position[step])


def test_the_length_of_the_step_is_bound(certified):
    _, _, _, after, contacts, violated = certified
    assert violated(after, contacts, H * (1 + 1e-9))["pose"] > 1e-10


def test_bodies_moved_together_with_their_points_are_noticed(certified):
    """Along the floor and up in flight no equation of a contact tells where a body is."""
    _, system, _, after, contacts, violated = certified
    moved = dataclasses.replace(after, position=after.position + jnp.array([100.0, 0.0, 0.0]))
    shifted = {name: getattr(contacts, name) + jnp.array([100.0, 0.0, 0.0]) for name in ("point_1", "point_2")}
    assert violated(moved, dataclasses.replace(contacts, **shifted))["pose"] > 1.0
    spun = jax.vmap(rotation.advance, (0, None))(after.orientation, jnp.array([0.0, 0.0, 1e-6]))
    assert violated(dataclasses.replace(after, orientation=spun), contacts)["pose"] > 1e-6
    late = dataclasses.replace(after, time=after.time + 1e-6)
    assert violated(late, contacts)["pose"] > 1e-5


def with_all(contacts, **changes):
    """`contacts` and, if they have any, those of their stages, changed alike."""
    other = dataclasses.replace(contacts, **{name: change(contacts) for name, change in changes.items()})
    if contacts.stages is None:
        return other
    inside = with_all(contacts.stages.contacts, **changes)
    return dataclasses.replace(other, stages=dataclasses.replace(contacts.stages, contacts=inside))


def test_tangents_of_another_length_are_noticed(certified):
    """Three times as long, with a third of p_t: the impulse is the same, and its bound three times
    as high."""
    *_, after, contacts, violated = certified
    third = jnp.array([1 / 3, 1 / 3, 1.0])
    other = with_all(contacts, tangent=lambda c: 3 * c.tangent, friction_impulse=lambda c: third * c.friction_impulse)
    assert violated(after, other)["tangent"] > 1.0


def test_tangents_turned_against_the_direction_are_noticed(certified):
    """With everything that is measured along them, which leaves the motion as it is."""
    name, _, _, after, contacts, violated = certified
    c, s = np.cos(0.3), np.sin(0.3)

    def turned(of, values):
        return jnp.stack(
            [c * values[..., 0] + s * values[..., 1], c * values[..., 1] - s * values[..., 0], values[..., 2]], -1
        )

    other = with_all(
        contacts,
        tangent=lambda of: c * of.tangent + s * jnp.cross(of.normal, of.tangent),
        friction_impulse=lambda of: turned(of, of.friction_impulse),
        slip=lambda of: turned(of, of.slip),
    )
    found = violated(after, other)
    if "faces" in name:
        assert found["tangent"] > 0.1
    else:  # isotropic friction without a `direction`: any tangent is as good
        assert found["tangent"] <= 1e-12
        assert found["slip"] <= 1e-12


def test_friction_without_a_coefficient_is_noticed(certified):
    """2e-6 of what presses, where mu = 0: its square is 4e-12."""
    name, system, _, after, contacts, violated = certified
    if "faces" not in name:
        pytest.skip("no contact without friction")
    unit = float(np.min(scales(system, H).impulse[0]))
    rubbing = contacts.friction_impulse.at[1, 0].set(2e-6 * unit)
    assert violated(after, dataclasses.replace(contacts, friction_impulse=rubbing))["cone"] >= 1.9e-6


def test_a_normal_of_another_length_a_negative_multiplier_and_an_impulse_without_an_axis_are_noticed(certified):
    name, _, _, after, contacts, violated = certified
    if "three" in name:
        pytest.skip("the same function")
    longer = dataclasses.replace(contacts, normal=1.001 * contacts.normal, gap=contacts.gap / 1.001)
    assert violated(after, longer)["closest points"] > 1e-4
    assert violated(after, dataclasses.replace(contacts, multipliers_2=-contacts.multipliers_2))["closest points"] > 0.1
    if "faces" in name:
        drilled = contacts.friction_impulse.at[0, 2].set(1e-3)
        found = violated(after, dataclasses.replace(contacts, friction_impulse=drilled))
        assert found["no impulse on an axis without friction"] > 1e-4


def test_rates_that_follow_eta_are_noticed(certified):
    """Where bodies are apart, eta could move them at will, and the velocities not know."""
    name, system, _, after, contacts, violated = certified
    if contacts.stages is None:
        pytest.skip("one stage has no eta")
    own = contacts.stages
    closed = violated(after, dataclasses.replace(contacts, stages=dataclasses.replace(own, eta=own.eta + 1.0)))
    assert closed["rates"] > 1e-2
    open_ = jnp.full_like(own.contacts.gap, 0.1)
    lifted = dataclasses.replace(own, eta=own.eta + 1.0, contacts=dataclasses.replace(own.contacts, gap=open_))
    assert violated(after, dataclasses.replace(contacts, stages=lifted))["eta"] > 1e-2


QUATERNIONS = np.array([[0.5, -0.1, 0.7, 0.2], [1.0, 0.0, 0.0, 0.0]])
QUATERNIONS = QUATERNIONS / np.linalg.norm(QUATERNIONS, axis=1, keepdims=True)


@pytest.mark.parametrize("angle", [0.0, 1e-160, 1e-12, 1e-6, 1e-3, 0.1, np.pi, 3.5, 10.0, 1000.0])
def test_the_second_writing_of_rotations_is_right(angle):
    """Against scipy; and the rate of a rotation vector against the difference of two rotations a
    moment apart."""
    turn = angle * np.array([2.0, -1.0, 0.5]) / np.linalg.norm([2.0, -1.0, 0.5])
    start = Rotation.from_quat(np.roll(QUATERNIONS, -1, axis=1))
    turned = mechanics.turned(jnp.asarray(QUATERNIONS), jnp.asarray(turn))
    rounding = np.finfo(float).eps * (16 + angle)
    expected = (Rotation.from_rotvec(turn) * start).as_matrix()
    np.testing.assert_allclose(mechanics.rotations(turned), expected, rtol=0, atol=rounding)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), 1.0, rtol=0, atol=rounding)
    rate, dt = np.array([0.3, 0.7, -0.4]), 1e-5
    ends = [Rotation.from_rotvec(turn + sign * dt * rate) for sign in (-1, 1)]
    difference = (ends[1] * ends[0].inv()).as_rotvec() / (2 * dt)
    # of second order in dt, and what rounding of the angles leaves of a difference
    atol = 1e-9 + 4 * rounding / dt
    np.testing.assert_allclose(mechanics.spin(jnp.asarray(turn), jnp.asarray(rate)), difference, rtol=0, atol=atol)


def test_the_second_writing_of_contacts_and_momenta_is_right():
    """By NumPy's cross products: slips as velocities of points, wrenches as forces at them, momenta
    as R I R^T omega."""
    rng = np.random.default_rng(0)
    n, t = np.linalg.qr(rng.normal(size=(3, 3)))[0][:2]
    points, centres, (v, omega), p = (
        rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.normal(size=(2, 2, 3)), rng.normal(size=4),
    )  # fmt: skip
    moving = [mechanics.Bodies(centres[i], None, jnp.concatenate([v[i], omega[i]])) for i in (0, 1)]
    axes = np.stack([n, t, np.cross(n, t)])
    frame = mechanics.Frame(jnp.asarray(axes), *(mechanics.arms(jnp.asarray(points[i] - centres[i])) for i in (0, 1)))
    speeds = [v[i] + np.cross(omega[i], points[i] - centres[i]) for i in (0, 1)]
    v_n, slip, _ = mechanics.slip(frame, *moving)
    np.testing.assert_allclose(
        np.append(v_n, slip), np.append(axes @ (speeds[1] - speeds[0]), n @ (omega[1] - omega[0])), rtol=0, atol=1e-14
    )
    force = p[:3] @ axes
    for sign, own, arm in zip((-1, 1), mechanics.wrenches(frame, p[0], p[1:]), points - centres, strict=True):
        np.testing.assert_allclose(own, sign * np.append(force, np.cross(arm, force) + p[3] * n), rtol=0, atol=1e-14)
    system, _ = jax.tree.map(jnp.asarray, box_and_ellipsoid().build())
    R = Rotation.from_quat(np.roll(QUATERNIONS, -1, axis=1)).as_matrix()
    found = mechanics.momentum(system, jnp.asarray(R), jnp.concatenate([v, omega], axis=1))
    angular = np.einsum("bij,bjk,blk,bl->bi", R, np.asarray(system.inertia), R, omega)
    np.testing.assert_allclose(found, np.concatenate([np.asarray(system.mass)[:, None] * v, angular], axis=1), atol=1e-14)


def test_a_wrong_lever_in_the_solver_is_noticed(monkeypatch):
    """Impulses that act 1e-6 m beside the closest point, in the solver alone: its step is solved,
    but not certified."""
    right = contact.wrenches

    def beside(geometry, centre_1, centre_2, p_n, p_f):
        return right(geometry, centre_1, centre_2 + 1e-6, p_n, p_f)

    system, state = jax.tree.map(jnp.asarray, scenes.two_spheres().build())
    stepper = ist.GeometricallyImplicit()
    memory = begin(stepper, system, state)
    jax.clear_caches()  # of programs with the right lever
    monkeypatch.setattr(contact, "wrenches", beside)
    step = jit(lambda *start: stepper.step(*start))(system, state, memory, H)
    monkeypatch.undo()
    jax.clear_caches()
    assert step.result == ist.Result.SOLVED
    assert jnp.max(jit(ist.certificate)(system, state, step.state, step.contacts, H)["momentum"]) > 1e-8


def test_a_needle_that_spins_fast_in_free_flight_is_certified():
    """The step that momenta alone determine, its root found by SciPy: it loses energy, as the
    scheme does, so that no contact can have brought any."""
    scene, h, spin = ist.Scene(gravity=(0, 0, 0)), 0.01, np.array([300.0, 1.0, 0.0])
    needle = shapes.Ellipsoid((0.2, 0.02, 0.02))
    scene.add_body(name="needle", shape=needle, mass=1.0, position=(0, 0, 0), velocity=(0, 0, 0, *spin))
    system, before = jax.tree.map(jnp.asarray, scene.build())
    inertia = np.diag(np.asarray(system.inertia[0]))

    def off(omega):
        turn = Rotation.from_rotvec(h * omega)
        return turn.apply(inertia * turn.apply(omega, inverse=True)) - inertia * spin

    omega = fsolve(off, spin, xtol=1e-14)
    assert omega @ (inertia * spin) < spin @ (inertia * spin)
    end = Rotation.from_rotvec(h * omega).as_quat()[[3, 0, 1, 2]]
    after = dataclasses.replace(
        before, time=before.time + h, orientation=jnp.asarray(end[None]), velocity=jnp.asarray([[0.0, 0.0, 0.0, *omega]])
    )
    found = jit(ist.certificate)(system, before, after, no_contacts(3), h)
    assert set(found) == {"momentum", "pose", "energy"}
    assert max(float(jnp.max(v)) for v in found.values()) <= 1e-10
