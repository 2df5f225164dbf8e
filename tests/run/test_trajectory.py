"""What a simulation leaves: saved and loaded without a change, energies by a direct formula, loads
by two routes."""

import dataclasses
import json
import struct
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import shapes
from implicit_stepper import (
    ErrorEstimate,
    FrictionEllipsoid,
    GeometricallyImplicit,
    RadauContact,
    Result,
    Scene,
    StepError,
    load,
    simulate,
)
from implicit_stepper.run import fixed_run

WRENCH = np.array([0.5, -0.2, 1.0, 0.1, 0.0, -0.3])


def run(scene, **keywords):
    return simulate(scene, GeometricallyImplicit(), **{"h": 0.01, "duration": 0.2, **keywords})


def thrown():
    """Two ellipsoids, the first of them a ball, on a floor; only the ball is loaded. One contact
    starts closed, one open."""
    scene = Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(
        name="ball",
        shape=shapes.Ellipsoid((0.5, 0.5, 0.5)),
        position=[0, 0, 0.5],
        mass=2.0,
        velocity=[1, 0, 0, 0, 1, 2],
        wrench=WRENCH,
    )
    egg = scene.add_body(
        name="egg",
        shape=shapes.Ellipsoid((0.3, 0.4, 0.5)),
        position=[3, 0, 0.7],
        quaternion=[0.5, 0.5, -0.5, 0.5],
        mass=1.5,
        velocity=[0, 0, -2, 5, 1, 2],
    )
    for body in (ball, egg):
        scene.add_contact(floor, body, friction=FrictionEllipsoid(0.3, e_r=0.1))
    return scene


@pytest.fixture(scope="module")
def spatial():
    return run(thrown())


@pytest.fixture(scope="module")
def planar():
    scene = Scene(dimension=2, gravity=(0.0, -9.81))
    scene.add_body(name="disc", shape=shapes.Disc(0.5), position=[0, 2], angle=0.3, mass=2.0, velocity=[1, 0, 3])
    return run(scene)


def same(a, b):
    """Equal field by field, arrays bit by bit and with their types."""
    for field in dataclasses.fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if field.name == "origin":  # a description, and its text
            assert one.header() == other.header()
        elif dataclasses.is_dataclass(one):
            same(one, other)
        elif isinstance(one, dict):
            assert one.keys() == other.keys()
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])
        elif isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert type(one) is type(other)
            assert one == other


@pytest.mark.parametrize("which", ["spatial", "planar"])
def test_saving_and_loading_changes_nothing(which, request, tmp_path):
    trajectory = request.getfixturevalue(which)
    trajectory.save(tmp_path / "run.npz")
    same(trajectory, load(tmp_path / "run.npz"))


@pytest.mark.parametrize("number", [1, 2])
def test_files_of_the_first_formats_are_read(spatial, tmp_path, number):
    """They had the same arrays, of one kind of step, and a header of four entries."""
    spatial.save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as stored:
        arrays, header = dict(stored), json.loads(str(stored["header"]))
    first = {"format": number} | {name: header[name] for name in ("h", "names", "contact_names")}
    np.savez(tmp_path / "old.npz", **arrays | {"header": json.dumps(first)})
    found = load(tmp_path / "old.npz")
    same(found.contacts, spatial.contacts)
    np.testing.assert_array_equal(found.kinetic_energy(), spatial.kinetic_energy())
    assert (found.events, found.counts, found.origin) == ((), {}, None)
    assert repr(found) == repr(spatial)


def test_foreign_file_is_refused_by_name(tmp_path):
    np.savez(tmp_path / "foreign.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match=r"foreign.npz' has no header: it is not a saved trajectory"):
        load(tmp_path / "foreign.npz")
    np.savez(tmp_path / "future.npz", header='{"format": 99}')
    with pytest.raises(ValueError, match=r"future.npz' has format 99, this version reads 1, 2, 3, 4"):
        load(tmp_path / "future.npz")
    with pytest.raises(OSError, match="missing"):
        load(tmp_path / "missing.npz")


def test_arrays_have_their_documented_shapes(spatial, planar):
    n = len(spatial)
    assert n == 20
    np.testing.assert_allclose(spatial.time, 0.01 * np.arange(n + 1), rtol=0, atol=1e-15)
    assert spatial.position.shape == (n + 1, 2, 3)
    assert spatial.orientation.shape == (n + 1, 2, 4)
    assert spatial.velocity.shape == (n + 1, 2, 6)
    for name in ("normal_impulse", "gap", "sigma"):
        assert getattr(spatial.contacts, name).shape == (n, 2)
    for name in ("friction_impulse", "slip", "normal", "tangent", "point_1", "point_2"):
        assert getattr(spatial.contacts, name).shape == (n, 2, 3)
    assert spatial.stats.iterations.shape == (n,)
    assert all(values.shape == (n,) for values in spatial.certificate.values())
    assert spatial.names == ("ball", "egg")
    assert spatial.contact_names == (("floor", "ball"), ("floor", "egg"))
    assert planar.position.shape == (n + 1, 1, 2)
    assert planar.orientation.shape == (n + 1, 1, 1)
    assert planar.velocity.shape == (n + 1, 1, 3)
    assert planar.contacts.normal_impulse.shape == (n, 0)


def test_orientation_is_an_angle_in_the_plane_and_a_quaternion_in_space(spatial, planar):
    np.testing.assert_array_equal(spatial.quaternion, spatial.orientation)
    # nothing turns the disc
    np.testing.assert_allclose(planar.angle[:, 0], 0.3 + 3.0 * planar.time, rtol=0, atol=1e-13)
    with pytest.raises(AttributeError, match="a spatial trajectory has `quaternion`, not `angle`"):
        _ = spatial.angle
    with pytest.raises(AttributeError, match="a planar trajectory has `angle`, not `quaternion`"):
        _ = planar.quaternion


def test_kinetic_energy_is_the_sum_over_bodies(spatial, planar):
    """m v.v / 2 + w.R I R^T w / 2 with R from scipy; the planar disc has I = m r^2 / 2."""
    expected = np.zeros(len(spatial) + 1)
    for b in range(2):
        R = Rotation.from_quat(np.roll(spatial.quaternion[:, b], -1, axis=1)).as_matrix()
        v, w = spatial.velocity[:, b, :3], spatial.velocity[:, b, 3:]
        inertia = R @ spatial.inertia[b] @ R.transpose(0, 2, 1)
        expected += spatial.mass[b] * np.sum(v**2, axis=1) / 2 + np.sum(w * (inertia @ w[..., None])[..., 0], axis=1) / 2
    np.testing.assert_allclose(spatial.kinetic_energy(), expected, rtol=1e-14)
    v, w = planar.velocity[:, 0, :2], planar.velocity[:, 0, 2]
    np.testing.assert_allclose(planar.kinetic_energy(), np.sum(v**2, axis=1) + 0.25 * w**2 / 2, rtol=1e-14)


@pytest.mark.parametrize("duration", [0.2, 0.205])
def test_the_estimated_error_of_a_fall_is_its_error(planar, duration):
    """x errs by g h t / 2 in steps of h, of which a last one of half a step makes less; the angle
    not at all."""
    scene = Scene(dimension=2, gravity=(0.0, -9.81))
    scene.add_body(name="disc", shape=shapes.Disc(0.5), position=[0, 2], angle=0.3, mass=2.0, velocity=[1, 0, 3])
    found = run(scene, duration=duration, estimate_error=True)
    estimate, exact = found.error, 2 - 9.81 * found.time**2 / 2
    np.testing.assert_allclose(estimate.time, found.time)
    off = np.abs(found.position[:, 0, 1] - exact)
    np.testing.assert_allclose(estimate.position[:21, 0], off[:21], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(estimate.position[-1, 0], off[-1], rtol=2e-2)
    for name in ("angle", "velocity", "spin"):
        np.testing.assert_allclose(getattr(estimate, name), 0.0, atol=1e-12)
    assert repr(estimate).startswith(f"<ErrorEstimate: at t = {duration} s up to 0.0098 m, ")
    np.testing.assert_array_equal(found[5:].error.position, estimate.position[5:])
    assert planar.error is None


def test_an_estimate_is_kept_in_a_file_and_needs_fixed_steps(spatial, tmp_path):
    estimate = ErrorEstimate(spatial.time, *np.random.default_rng(0).random((4, *spatial.position.shape[:2])))
    dataclasses.replace(spatial, error=estimate).save(tmp_path / "run.npz")
    same(load(tmp_path / "run.npz").error, estimate)
    with pytest.raises(ValueError, match="estimate_error"):
        simulate(thrown(), RadauContact(), tol=1e-6, duration=0.2, estimate_error=True)
    wrong = dataclasses.replace(estimate, angle=estimate.angle[1:])
    dataclasses.replace(spatial, error=wrong).save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match=r"error\.angle"):
        load(tmp_path / "run.npz")


def test_a_step_of_the_second_run_that_fails_leaves_the_first_run(spatial, monkeypatch):
    """The estimate needs a run with half the step, which may meet what the first one did not."""
    taken = []

    def fail_at_half(scene, stepper, h, *_):
        taken.append(h)
        if len(taken) == 1:
            return spatial
        how = {"result": Result.NOT_CONVERGED, "time": 0.105, "certificate": {"normal force": np.ones(1)}}
        raise StepError("it failed", trajectory=spatial[:2], state=spatial[:10].end, **how)

    monkeypatch.setattr(fixed_run, "run", fail_at_half)
    with pytest.raises(StepError, match="with half the step, .* to t = 0.105 s failed: .* all in the error's") as raised:
        run(thrown(), estimate_error=True)
    assert taken == [0.01, 0.005]
    error = raised.value
    assert len(error.trajectory) == 20
    assert error.trajectory.origin.settings["h"] == 0.01
    assert (error.result, error.time, error.state.time) == (Result.NOT_CONVERGED, 0.105, spatial.time[10])
    assert list(error.certificate) == ["normal force"]


@pytest.mark.parametrize("which", ["spatial", "planar"])
def test_a_dataset_has_the_arrays_by_name(which, request):
    found = request.getfixturevalue(which)
    data = found.to_xarray()
    d = found.position.shape[-1]
    body = found.names[-1]
    np.testing.assert_array_equal(data.position.sel(body=body), found.body(body).position)
    spin = data.spin.sel(body=body).values
    np.testing.assert_array_equal(spin if d == 3 else spin[:, 0], found.body(body).angular_velocity)
    assert data.end.values.tolist() == found.time[1:].tolist()
    assert data.sizes["contact"] == len(found.contact_names)
    assert data.force.attrs["units"] == "N"
    for i, names in enumerate(found.contact_names):
        own = data.sel(contact=" and ".join(names))
        np.testing.assert_array_equal(own.force, found.contact(i).force)
        np.testing.assert_array_equal(own.gap, found.contact(i).gap)
    assert ("quaternion" in data, "angle" in data) == (d == 3, d == 2)


def test_both_contacts_carry_a_load_in_some_step(spatial):
    """Otherwise the next test would say nothing about impulses."""
    assert np.all(np.max(spatial.contacts.normal_impulse, axis=0) > 0.01 * 9.81)
    assert np.all(np.max(np.abs(spatial.contacts.friction_impulse[..., :2]), axis=(0, 2)) > 1e-3)


def test_impulses_and_loads_add_up_to_the_change_of_momentum(spatial):
    """Linear momentum of each body: m dv = h (m g + force) + p_n n + p_t t + p_o (n x t), from the
    saved arrays alone."""
    c = spatial.contacts
    across = np.cross(c.normal, c.tangent)
    impulse = c.normal_impulse[..., None] * c.normal
    impulse = impulse + c.friction_impulse[..., :1] * c.tangent + c.friction_impulse[..., 1:2] * across
    force = np.stack([WRENCH[:3], np.zeros(3)]) + spatial.mass[:, None] * np.array([0, 0, -9.81])
    change = spatial.mass[:, None] * np.diff(spatial.velocity[..., :3], axis=0)
    # the solver's residual of 1e-10 at most, in units of m g h = 0.2 N s
    np.testing.assert_allclose(change, 0.01 * force + impulse, rtol=0, atol=1e-11)


def test_constant_wrench_as_a_function_changes_nothing():
    runs = []
    for wrench in (WRENCH, lambda time, position, orientation, velocity: jnp.asarray(WRENCH)):
        scene = Scene()
        scene.add_body(
            name="egg",
            shape=shapes.Ellipsoid((0.3, 0.4, 0.5)),
            position=[3, 0, 0.8],
            mass=1.5,
            velocity=[0, 0, -1, 5, 1, 2],
            wrench=wrench,
        )
        runs.append(run(scene))
    # each of 20 steps may differ by the solver's tolerance, in units of g h = 0.1 m/s and of that
    # over 0.2 m
    np.testing.assert_allclose(runs[0].velocity, runs[1].velocity, rtol=0, atol=20 * 1e-11)
    np.testing.assert_allclose(runs[0].position, runs[1].position, rtol=0, atol=20 * 1e-11)


def test_wrench_function_sees_the_start_of_the_step():
    """A spring and a clock: v_{n+1} = v_n + h (t_n - x_n), x_{n+1} = x_n + h v_{n+1}, iterated here
    in numpy."""

    def wrench(time, position, orientation, velocity):
        return jnp.zeros(6).at[0].set(time - position[0])

    scene = Scene(gravity=(0, 0, 0), acceleration_scale=1.0)
    scene.add_body(name="ball", shape=shapes.Sphere(0.5), position=[1, 0, 0], mass=1.0, wrench=wrench)
    trajectory = run(scene, duration=0.5)
    x, v, h = 1.0, 0.0, 0.01
    for i in range(len(trajectory)):
        v = v + h * (i * h - x)
        x = x + h * v
        np.testing.assert_allclose(trajectory.position[i + 1, 0], [x, 0, 0], rtol=0, atol=1e-12)
    assert len(trajectory) == 50


def falling(h, duration):
    scene = Scene(gravity=(0, 0, -1.0))
    scene.add_body(name="ball", shape=shapes.Sphere(0.5), position=[0, 0, 0], mass=1.0)
    return run(scene, h=h, duration=duration)


@pytest.mark.parametrize(("h", "duration", "steps"), [(0.1, 0.1 * 3, 3), (0.01, 2.0, 200)])
def test_duration_is_covered_by_whole_steps(h, duration, steps):
    """0.1 * 3 is 0.30000000000000004, still 3 steps of 0.1; 200 steps need more than one compiled
    chunk of 128."""
    trajectory = falling(h, duration)
    assert len(trajectory) == steps
    assert trajectory.h == h
    np.testing.assert_allclose(trajectory.time, h * np.arange(steps + 1), rtol=1e-13)
    np.testing.assert_allclose(trajectory.velocity[:, 0, 2], -h * np.arange(steps + 1), rtol=1e-12)


@pytest.mark.parametrize(("h", "duration", "whole"), [(0.1, 0.31, 3), (0.7, 0.1, 0), (1e10, 0.1, 0), (0.01, 1e-14, 0)])
def test_the_last_step_ends_at_the_duration(h, duration, whole):
    """Implicit Euler falls by g times the time itself, whatever the steps."""
    trajectory = falling(h, duration)
    assert len(trajectory) == whole + 1
    times = np.append(h * np.arange(whole + 1), duration)
    np.testing.assert_allclose(trajectory.time, times, rtol=1e-13)
    np.testing.assert_allclose(trajectory.velocity[:, 0, 2], -times, rtol=1e-12)
    np.testing.assert_allclose(trajectory.h, np.diff(times) if whole else duration, rtol=1e-12)


def test_a_step_that_rounding_takes_from_the_time_is_refused():
    with pytest.raises(ValueError, match=r"`h` = 1e-300 s is lost in the rounding of times near 1 s: .* at least 2.2e-13 s"):
        falling(1e-300, 1.0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("text.npz", b"time,position\n"),
        ("empty.npz", b""),
    ],
)
def test_junk_is_refused_by_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}' is not an .npz file"):
        load(tmp_path / name)


def test_array_and_broken_header_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ValueError, match="not an .npz file"):
        load(tmp_path / "array.npy")
    np.savez(tmp_path / "broken.npz", header="{")
    with pytest.raises(ValueError, match="broken.npz' is not a saved trajectory"):
        load(tmp_path / "broken.npz")
    np.savez(tmp_path / "bare.npz", header='{"format": 3}')
    with pytest.raises(ValueError, match="bare.npz' is not a saved trajectory"):
        load(tmp_path / "bare.npz")


def test_a_name_without_ending_is_kept(spatial, tmp_path):
    spatial.save(tmp_path / "run")
    assert np.array_equal(load(tmp_path / "run").position, spatial.position)


def test_a_damaged_file_is_refused_by_name(spatial, tmp_path):
    """One byte in a hundred places: refused by name, or read as it was saved, as some bytes of the
    archive's own headers say nothing. What holds an array is always refused."""
    path = tmp_path / "run.npz"
    spatial.save(path)
    whole, messages, kept, held = path.read_bytes(), [], [], set()
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            end = entry.header_offset + 30  # names and extra fields follow, of the lengths told here
            end += sum(struct.unpack("<HH", whole[end - 4 : end]))
            held.update(range(end, end + entry.compress_size - 1))  # the last may be filled up
    for i in range(len(whole) // 2000, len(whole), len(whole) // 100):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0x55]) + whole[i + 1 :])
        try:
            found = load(path)
        except ValueError as error:
            messages.append(str(error))
        else:
            same(found, spatial)
            kept.append(i)
    assert all("run.npz' is" in message for message in messages)
    assert len(held) > 0.5 * len(whole)
    assert held.isdisjoint(kept)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="run.npz' is not an .npz file, or was cut off"):
        load(path)


@pytest.mark.parametrize("name", ["time", "velocity", "contacts.gap", "contacts.slip", "stats.rung", "certificate.gap"])
def test_arrays_of_other_lengths_are_refused(spatial, tmp_path, name):
    spatial.save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as stored:
        arrays = dict(stored)
    arrays[name] = arrays[name][:-1]
    np.savez(tmp_path / "short.npz", **arrays)
    with pytest.raises(ValueError, match=r"short.npz' is not a saved trajectory: `.*` has shape"):
        load(tmp_path / "short.npz")


def test_a_full_disk_leaves_the_file_that_was_there(spatial, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    spatial.save(path)
    before = path.read_bytes()

    def full(file, **arrays):
        file.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        spatial.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.npz"]
