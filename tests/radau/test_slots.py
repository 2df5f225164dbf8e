"""Steps of several stages that are solved with some of the contacts alone."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.radau import driver, slots, sparse_loop
from implicit_stepper.radau.stages import Modes
from implicit_stepper.run import checkpoint

G, RADIUS, COUNT = 9.81, 0.1, 6
HEIGHTS = 0.02 + 0.015 * np.arange(COUNT)  # [m], of the lowest points
SPEED, MU = 0.3, 0.1


def discs(apart=3.0):
    """Discs beside each other that fall to a floor, one after another, each moving to the right;
    any two may touch."""
    scene = ist.Scene(dimension=2, gravity=(0.0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    made = [
        scene.add_body(
            name=f"disc {i}", shape=shapes.Disc(RADIUS), mass=1.0, inertia=0.5 * RADIUS**2,
            position=(apart * RADIUS * i, RADIUS + height), velocity=(SPEED, 0.0, 0.0),
        )
        for i, height in enumerate(HEIGHTS)
    ]  # fmt: skip
    for i, disc in enumerate(made):
        scene.add_contact(floor, disc, friction=MU)
        for other in made[:i]:
            scene.add_contact(other, disc)
    return scene


class _Killed(BaseException):
    """Ends a run as abruptly as an exception can."""


def held(system, touching):
    """Modes in which the contacts `touching` of every group do so."""
    on = tuple(
        jnp.isin(jnp.arange(len(g.bodies)), jnp.array(own, int)) for g, own in zip(system.groups, touching, strict=True)
    )
    return Modes(on, on, on, tuple(jnp.zeros((len(own), 0), bool) for own in on))


RUN = {"scene": discs(), "stepper": ist.RadauContact(), "tol": 1e-8, "duration": 0.2}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((6, np.inf), id="six"),
        pytest.param((4, np.inf), id="four", marks=pytest.mark.thorough),
        pytest.param((6, 0), id="six, sparse"),
    ],
)
def run(request):
    """With six slots for the discs' six contacts with the floor, or four, which run out, and four
    for fifteen that stay open; with dense Jacobians and with sparse ones."""
    count, large = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "first_slots", lambda system: slots._none_chosen(system, [count, 4]))
        patch.setattr(sparse_loop, "_LARGE", large)
        yield ist.simulate(**RUN)


def test_discs_land_and_roll_when_the_closed_form_says(run):
    """At sqrt(2 height / g), where friction gives mu times the impulse m sqrt(2 g height) of the
    landing, and mu m g from then on, until a disc, m r^2 / 2, rolls, at 2/3 of its speed."""
    landed = np.sqrt(2 * HEIGHTS / G)
    np.testing.assert_allclose([e.time for e in run.events if e.kind == "closes"], landed, rtol=0, atol=1e-8)
    slowed = SPEED - MU * G * landed - MU * G * (run.time[-1] - landed)
    np.testing.assert_allclose(run.velocity[-1, :, 0], np.maximum(slowed, 2 / 3 * SPEED), rtol=0, atol=1e-7)
    sticks = landed + (SPEED / 3 - MU * G * landed) / (MU * G)
    slid = sticks > landed
    assert 0 < np.sum(slid) < COUNT
    np.testing.assert_allclose(
        sorted(e.time for e in run.events if e.kind == "sticks"), sorted(sticks[slid]), rtol=0, atol=1e-7
    )


def test_contacts_that_no_slot_is_left_for_are_recorded_with_the_others(run):
    """Gaps between discs are those of their centres, at every step."""
    assert len(run.contact_names) == COUNT + COUNT * (COUNT - 1) // 2
    for number, (first, second) in enumerate(run.contact_names):
        if first != "floor":
            centres = [run.position[:, run.names.index(name)] for name in (first, second)]
            expected = np.linalg.norm(centres[1] - centres[0], axis=1) - 2 * RADIUS
            np.testing.assert_allclose(run.contacts.gap[:, number], expected[1:], rtol=0, atol=1e-12)


def test_pauses_change_no_number(run, tmp_path, monkeypatch):
    """Killed in the middle, with one problem at a time, a run goes on to the same bits."""
    monkeypatch.setattr(driver, "next_call", lambda *_: 1)
    monkeypatch.setattr(driver, "first_call", lambda *_: 1)
    written, path, count = checkpoint.write, tmp_path / "run.checkpoint", iter(range(1000))

    def write(*arguments):
        written(*arguments)
        if next(count) == 12:
            raise _Killed

    monkeypatch.setattr(checkpoint, "write", write)
    with pytest.raises(_Killed):
        ist.simulate(**RUN, checkpoint=path, every=0.0)
    again = ist.simulate(**RUN, checkpoint=path, every=0.0, resume=path)
    for name in ("time", "position", "velocity"):
        np.testing.assert_array_equal(getattr(again, name), getattr(run, name))
    assert again.events == run.events


def test_what_touches_is_chosen_first_then_what_was_then_the_nearest():
    system, _ = discs().build()
    gaps = jnp.linspace(1.0, 0.1, system.contact_count)  # [m]: the later the nearer
    numbers = [np.array(group.numbers) for group in system.groups]
    modes, before = held(system, ([1], [])), (np.array([0, 2, 3]), np.array([5, 6, 7, 8]))
    none = jnp.asarray(-1)

    def which(modes, event, is_held):
        found, crowded = slots.chosen(system, before, modes, event, gaps, jnp.asarray(is_held))
        return [list(map(int, own)) for own in found], bool(crowded)

    nearest = [list(np.argsort(np.asarray(gaps)[own])) for own in numbers]
    assert which(modes, none, True) == (
        [sorted([1, *before[0][np.isin(before[0], nearest[0][:4])][-2:]]), [5, 6, 7, 8]],
        False,
    )
    chosen, crowded = which(modes, none, False)
    assert (chosen[1], crowded) == (sorted(nearest[1][:4]), False)
    # the margin of the friction of the last contact with the floor
    chosen, _ = which(modes, jnp.asarray(2 * (COUNT - 1) + 1), True)
    assert {1, COUNT - 1} <= set(chosen[0])
    assert which(held(system, ([0, 1], [])), none, False)[1]  # two to spare are none of three
    assert not which(held(system, ([0, 1], [])), none, True)[1]


def test_a_contact_without_a_slot_that_touches_or_presses_is_noticed():
    chosen, none = (np.array([0, 2]), np.array([1])), jnp.zeros((3, 4), bool)
    open_ = Modes((none, none), (none, none), (none, none), (none[..., None], none[..., None]))
    assert not slots.met(chosen, open_, jnp.asarray(False))
    for name in ("touching", "pressed"):
        for group in range(2):
            for contact in range(4):
                one = none.at[1, contact].set(True)
                parts = tuple(one if g == group else none for g in range(2))
                modes = dataclasses.replace(open_, **{name: parts})
                assert bool(slots.met(chosen, modes, jnp.asarray(False))) == (contact not in chosen[group])
                assert not slots.met(chosen, modes, jnp.asarray(True))


def test_the_number_of_an_event_is_that_of_its_margin_among_those_in_slots():
    """Two groups of four contacts with three and two margins, and a joint with two, which has no
    slots: of contacts 0 and 2, and 1."""
    chosen, active = (np.array([0, 2]), np.array([1])), (1, 0, 0)
    each = tuple(np.zeros(count, bool) for count in (4, 4, 1))
    modes = Modes(each, each, each, tuple(np.zeros((len(on), k), bool) for on, k in zip(each, active, strict=True)))
    kept = [0, 1, 2, 6, 7, 8, 12 + 2, 12 + 3, 20, 21]
    for place, event in enumerate(kept):
        assert slots.event_in(modes, chosen, jnp.asarray(event)) == place
    assert slots.event_in(modes, chosen, jnp.asarray(-1)) == -1


def test_slots_grow_where_they_run_out_and_end_where_they_gain_nothing():
    """Of six contacts with the floor and fifteen between discs."""
    system, _ = discs().build()
    few = slots._none_chosen(system, [4, 4])
    for touching, sizes in ((2, [4, 4]), (3, [6, 4]), (6, [6, 4])):
        assert [len(own) for own in slots.more_slots(system, few, held(system, (range(touching), [])).touching)] == sizes
    assert slots.more_slots(system, few, held(system, (range(6), range(9))).touching) == ()


def test_there_is_a_slot_for_all_that_is_closed():
    """Of six contacts with the floor, of which gaps up to 1e-9 m count, and 15 between discs."""
    system, _ = discs().build()
    few, gaps = slots._none_chosen(system, [4, 4]), np.full(system.contact_count, 0.1)
    gaps[list(system.groups[0].numbers)[:4]] = 1e-10
    assert slots.with_room(system, few, gaps) is few
    gaps[system.groups[0].numbers[4]] = 1e-10
    assert [len(own) for own in slots.with_room(system, few, gaps)] == [6, 4]
    assert slots.room(few) == 8
    assert slots.room(()) is None
