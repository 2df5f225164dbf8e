"""Some contacts of a group, chosen while a program runs."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

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
