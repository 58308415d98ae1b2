"""Ops that make or move elements, and views of what is in memory."""

from __future__ import annotations

from typing import Any

from meshgen.ops.evaluate import elementwise as elements
from meshgen.ops.evaluate import structure as means
from meshgen.ops.evaluate.common import Handler
from meshgen.ops.op import (
    ANY_ERROR,
    LAYOUT,
    LOOKUP,
    NO_KERNEL,
    NO_RULE,
    SOURCE,
    AtLeast,
    Kernel,
    Op,
    RuleOf,
    Trait,
    named,
    no_flops,
)
from meshgen.ops.rules import lookup, updates
from meshgen.ops.rules import movement as rules
from meshgen.ops.tolerance import movement as errors
from meshgen.ops.types import structure as types
from meshgen.ops.types.site import Inference


def _source(name: str, infer: Inference, evaluate: Handler, *traits: Trait, **others: Any) -> Op:
    return Op(name=name, operands=0, types=infer, evaluate=evaluate, error=ANY_ERROR, rule=rules.source, kernel=SOURCE,
              flops=no_flops, traits=frozenset(traits), **others)  # fmt: skip


def _move(name: str, operands: int | AtLeast, infer: Inference, evaluate: elements.OfNode, data: int, rule: RuleOf | None,
          kernel: Kernel, ints: tuple[str, ...] = (), *traits: Trait, dim: bool = False) -> Op:  # fmt: skip
    """`data` is the number of operands whose elements are moved (-1: all); the others are places and sizes."""
    attributes = {**named(ints, "ints"), **({"dim": "int"} if dim else {})}
    return Op(name=name, operands=operands, types=infer, evaluate=means.of_node(evaluate), error=errors.move(data), rule=rule,
              kernel=kernel, flops=no_flops, attributes=attributes, traits=frozenset(traits))  # fmt: skip


_WINDOW = ("start", "limit", "stride")
_GATHER = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map",
           "slice_sizes")  # fmt: skip

SOURCES = (
    _source("constant", types.constant, elements.of_node(elements.spread), Trait.BROADCASTS, attributes={"value": "any"}),
    _source("iota", types.iota, means.of_node(means.iota), attributes={"dim": "int"}),
)  # fmt: skip

MOVES = (
    _move("broadcast_in_dim", 1, types.broadcast_in_dim, means.broadcast, 1, rules.broadcast_in_dim, LAYOUT, ("dims",), Trait.ARRANGES),
    _move("transpose", 1, types.transpose, means.transpose, 1, rules.transpose, LAYOUT, ("perm",), Trait.ARRANGES),
    _move("reshape", 1, types.reshape, means.reshape, 1, rules.reshape, LAYOUT, (), Trait.ARRANGES, Trait.REGROUPS),
    _move("reverse", 1, types.reversed_dims, means.reverse, 1, rules.reverse, LAYOUT, ("dims",), Trait.ARRANGES),
    _move("slice", 1, types.sliced, means.sliced, 1, rules.window, LAYOUT, _WINDOW, Trait.ARRANGES, Trait.TAKES),
    _move("pad", 2, types.pad, means.padded, 2, rules.window, LAYOUT, ("low", "high", "interior"), Trait.ARRANGES, Trait.LEAVES),
    _move("concatenate", AtLeast(1), types.concatenate, means.concatenate, -1, rules.window, LOOKUP, (), Trait.ARRANGES, Trait.JOINS, dim=True),
    _move("dynamic_slice", AtLeast(1), types.dynamic_slice, means.dynamic_slice, 1, updates.dynamic_slice, LOOKUP, ("slice_sizes",),
          Trait.TAKES),
    _move("dynamic_update_slice", AtLeast(2), types.dynamic_update_slice, means.dynamic_update_slice, 2, updates.dynamic_update_slice,
          LOOKUP),
    Op(name="gather", operands=2, types=types.gather, evaluate=means.of_node(means.gather), error=errors.move(1), rule=lookup.gather,
       kernel=LOOKUP, flops=no_flops, attributes={**named(_GATHER, "ints"), "index_vector_dim": "int"},
       traits=frozenset((Trait.TAKES,))),
)  # fmt: skip

VIEWS = (  # of what is in memory: fusion writes them, and nothing copies
    _move("view", 1, types.reshape, means.reshape, 1, NO_RULE, NO_KERNEL, (), Trait.VIEW),
    _move("subview", 1, types.sliced, means.sliced, 1, NO_RULE, NO_KERNEL, _WINDOW, Trait.VIEW),
    _move("join", AtLeast(1), types.concatenate, means.concatenate, -1, NO_RULE, NO_KERNEL, dim=True),
)

OPS = (*SOURCES, *MOVES, *VIEWS)
