"""Arrays that differ between devices. Inside `jax.shard_map` the type of an array says along which
axes of the mesh it varies, and a loop must keep the types of what it carries: a constant, the same
on all devices, has to be made to vary before a loop in which it meets what does."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax


def varying_like(tree, other):
    """`tree`, of which every leaf varies at least along the axes along which a leaf of the tree
    `other` does. Outside of `shard_map` that is `tree` as it is."""
    if not _sharded():
        return tree
    # a choice between a leaf and itself: its type is that of the predicate too, and the compiler
    # drops it
    which = functools.reduce(operator.or_, (jnp.any(leaf != leaf) for leaf in jax.tree.leaves(other)))
    return jax.tree.map(functools.partial(_varying, which), tree)


def _varying(which, leaf):
    if jnp.size(leaf):
        return jnp.where(which, leaf, leaf)
    # of no leaf's values a choice is made
    return jnp.broadcast_to(which, jnp.shape(leaf)).astype(jnp.result_type(leaf))


def when(wanted, found: Callable, instead):
    """`found()` if `wanted` (), a tree of arrays that vary like `wanted` or less, else `instead`, a
    tree of the same kind.

    Inside `shard_map` that is a loop of one trip at most: under `vmap`, JAX makes `lax.cond` a
    choice between arguments too, which then vary more than what `found` was traced for."""
    if not _sharded():
        return lax.cond(wanted, found, lambda: instead)
    start = varying_like((wanted, instead), wanted)
    return lax.while_loop(lambda at: at[0], lambda at: varying_like((jnp.asarray(False), found()), at), start)[1]


def _sharded() -> bool:
    return bool(jax.sharding.get_abstract_mesh().manual_axes)
