"""Some contacts of a group, chosen while a program runs."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from . import linear_rows
from .contact_group import ContactGroup


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ChosenContacts(ContactGroup):
    """As many contacts as it has `bodies` (k, 2), which are data: other choices are no other
    program."""

    bodies: jax.Array


def chosen_from(group: ContactGroup, numbers) -> ChosenContacts:
    """The contacts `numbers` (k,) of a `group`."""
    fields = {field.name: field.metadata.get("static", False) for field in dataclasses.fields(group)}
    values = {name: getattr(group, name) for name in fields}
    arrays = {
        name: jax.tree.map(lambda a: jnp.asarray(a)[numbers], values[name]) for name, fixed in fields.items() if not fixed
    }
    own = {"bodies": jnp.asarray(np.array(group.bodies))[numbers], "numbers": tuple(range(len(numbers)))}
    return ChosenContacts(**values | arrays | own)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ChosenRows(linear_rows.Rows):
    """Rows of contacts with these `bodies` (k, 2), which are data."""

    bodies: jax.Array

    def momenta(self, impulses, body_count: int):
        """As of `Rows`, by which sides each body is on."""
        numbers, given = self._numbers(), self._by_side(impulses)
        shares = (numbers[:, :, None] == np.arange(body_count)).astype(float)
        return jnp.einsum("scb,scw->bw", shares, jnp.stack(given))

    def _numbers(self):
        return self.bodies.T


def rows_of(rows: linear_rows.Rows, numbers) -> ChosenRows:
    """Those of the contacts `numbers` (k,)."""
    bodies = jnp.asarray(np.array(rows.bodies, int).reshape(-1, 2))
    return ChosenRows(bodies[numbers], rows.on_1[numbers], rows.on_2[numbers], rows.e[numbers])
