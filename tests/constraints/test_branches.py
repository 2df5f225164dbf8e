"""Branches of complementarities at a stage, of constraints that state numbers."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from implicit_stepper.constraints import branches
from implicit_stepper.constraints.conditions import NOTHING, Cone, Held, Instant, StageConditions, Units

NOISE = 1e-12  # [m], of gaps in units of a metre
AT = Instant(Units(1.0, 1.0, 1.0, 1.0), 0.1, 0.1, NOISE, 0.0, "projection")


def pair(a, b):
    """0 <= a _|_ b >= 0."""
    return jnp.array([a]), jnp.array([b])


def states(rate=NOTHING, position=NOTHING, inequalities=NOTHING, cone=None):
    """A constraint that states this."""
    stated = StageConditions(jnp.zeros(0), inequalities, rate, cone, position)
    return SimpleNamespace(
        stage_conditions=lambda at, point: stated, eta_equations=lambda at, point, named, held: jnp.zeros(0)
    )


def cone(bound, y, w, rough=True):
    y, w = jnp.array(y), jnp.array(w)
    return Cone(jnp.asarray(bound), y, jnp.linalg.norm(w), w, jnp.ones(len(y), bool), jnp.asarray(rough))


@pytest.mark.parametrize("gap", [-NOISE / 2, 0.0, NOISE / 2])
def test_what_touches_without_force_is_closed_whatever_rounding_makes_of_it(gap):
    """Contacts, limits, and by the law of its force what is compliant; without friction it
    slides."""
    for member in (states(rate=pair(0.0, 0.0), position=pair(0.0, gap)), states(rate=pair(0.0, gap))):
        found = branches.modes(member, AT, None)
        assert bool(found.touching)
        assert bool(found.pressed)
        assert not bool(found.sticking)
    apart = branches.modes(states(rate=pair(0.0, 0.0), position=pair(0.0, 1e-9)), AT, None)
    assert not bool(apart.touching)


def test_what_has_no_pairs_holds_and_nothing_of_it_is_left():
    joint = states()
    found = branches.modes(joint, AT, None)
    assert (bool(found.touching), bool(found.pressed), bool(found.sticking)) == (True, True, True)
    np.testing.assert_array_equal(branches.margins(joint, AT, None, found), [branches.NEVER] * 2)


@pytest.mark.parametrize(
    ("y", "w", "sticks", "left"),
    [
        ((0.3, 0.0), (0.0, 0.0), True, 0.2),  # bound - |y|
        ((-0.5, 0.0), (0.7, 0.0), False, 0.3 * 0.7),  # |y - r w| - bound, where friction is against the slip
        ((0.5, 0.0), (0.2, 0.0), True, 0.0),  # and one that aids it has come to its end
    ],
)
def test_friction_sticks_within_its_bound_and_slips_at_it(y, w, sticks, left):
    """With the step r = .3 of the projection, y - r w."""
    member = states(rate=pair(1.0, 0.0), position=pair(1.0, 0.0), cone=cone(0.5, y, w))
    found = branches.modes(member, AT, None)
    assert bool(found.sticking) == sticks
    assert float(branches.margins(member, AT, None, found)[1]) == pytest.approx(left, abs=1e-15)
    # nothing sticks or slips without contact, or without friction
    for other in (found._replace(touching=jnp.asarray(False)), found):
        bare = states(rate=pair(1.0, 0.0), position=pair(1.0, 0.0), cone=cone(0.5, y, w, rough=other is not found))
        assert float(branches.margins(bare, AT, None, other)[1]) == branches.NEVER


def test_rows_are_those_of_the_branch_that_is_named_or_of_all():
    """Of an open contact p = 0 and its inequalities as they are; of a closed one the gap, its rate
    and the slack or the multiplier that its branch names; not held, all vanish at a solution."""
    member = states(rate=pair(2.0, 3.0), position=pair(5.0, 7.0), inequalities=pair(11.0, 13.0))
    on, off = jnp.asarray(True), jnp.asarray(False)
    closed = Held(on, on, off, jnp.array([True]))
    np.testing.assert_array_equal(branches.stage_rows(member, AT, None, closed, on), [13.0, 3.0, 7.0])
    np.testing.assert_array_equal(branches.margins(member, AT, None, closed), [2.0, branches.NEVER, 11.0])
    parted = Held(off, off, off, jnp.array([False]))
    rows = branches.stage_rows(member, AT, None, parted, on)
    np.testing.assert_array_equal(rows[1:], [2.0, 5.0])
    assert float(rows[0]) == pytest.approx(np.hypot(11, 13) - 11 - 13)  # Fischer and Burmeister's
    np.testing.assert_array_equal(branches.margins(member, AT, None, parted), [7.0, branches.NEVER, branches.NEVER])
    solved = states(rate=pair(0.0, 3.0), position=pair(5.0, 0.0), inequalities=pair(0.0, 13.0))
    np.testing.assert_allclose(branches.stage_rows(solved, AT, None, closed, off), 0.0, rtol=0, atol=1e-15)
