"""The records of ops that create or move elements, and of views."""

from __future__ import annotations

from typing import Any

from meshgen.ir.attributes.base import Attributes, NoAttributes
from meshgen.ir.attributes.movement import (
    Constant,
    Dims,
    Gather,
    OneDim,
    Pad,
    Slice,
    SliceSizes,
    Transpose,
    Windows,
)
from meshgen.ops.evaluate import elementwise as elements
from meshgen.ops.evaluate import structure as means
from meshgen.ops.evaluate.common import Handler
from meshgen.ops.op import (
    LAYOUT,
    LOOKUP,
    NO_ERROR_RULE,
    NO_KERNEL,
    NO_RULE,
    SOURCE,
    AtLeast,
    Kernel,
    Op,
    RuleOf,
    Trait,
    no_flops,
)
from meshgen.ops.rules import gather, updates
from meshgen.ops.rules import movement as rules
from meshgen.ops.tolerance import movement as errors
from meshgen.ops.types import structure as types
from meshgen.ops.types.site import Inference


def _source(name: str, infer: Inference, evaluate: Handler, *traits: Trait, **fields: Any) -> Op:
    return Op(name=name, operands=0, types=infer, evaluate=evaluate, error=NO_ERROR_RULE, rule=rules.source, kernel=SOURCE,
              flops=no_flops, traits=frozenset(traits), **fields)  # fmt: skip


def _move(name: str, operands: int | AtLeast, infer: Inference, evaluate: elements.OfNode, data: int, rule: RuleOf | None,
          kernel: Kernel, attributes: type[Attributes] = NoAttributes, *traits: Trait) -> Op:  # fmt: skip
    """Return the record of a data movement op.

    Args:
        data: the number of leading operands whose elements are moved (-1: all); the others are indices and sizes.
    """
    return Op(name=name, operands=operands, types=infer, evaluate=means.of_node(evaluate), error=errors.move(data), rule=rule,
              kernel=kernel, flops=no_flops, attributes=attributes, traits=frozenset(traits))  # fmt: skip


SOURCES = (
    _source("constant", types.constant, elements.of_node(elements.spread), Trait.BROADCASTS, attributes=Constant),
    _source("iota", types.iota, means.of_node(means.iota), attributes=OneDim),
)  # fmt: skip

MOVES = (
    _move("broadcast_in_dim", 1, types.broadcast_in_dim, means.broadcast, 1, rules.broadcast_in_dim, LAYOUT, Dims, Trait.ARRANGES),
    _move("transpose", 1, types.transpose, means.transpose, 1, rules.transpose, LAYOUT, Transpose, Trait.ARRANGES),
    _move("reshape", 1, types.reshape, means.reshape, 1, rules.reshape, LAYOUT, NoAttributes, Trait.ARRANGES, Trait.REGROUPS),
    _move("reverse", 1, types.reversed_dims, means.reverse, 1, rules.reverse, LAYOUT, Dims, Trait.ARRANGES),
    _move("slice", 1, types.sliced, means.sliced, 1, rules.window, LAYOUT, Slice, Trait.ARRANGES, Trait.TAKES),
    _move("pad", 2, types.pad, means.padded, 2, rules.window, LAYOUT, Pad, Trait.ARRANGES, Trait.LEAVES),
    _move("concatenate", AtLeast(1), types.concatenate, means.concatenate, -1, rules.window, LOOKUP, OneDim, Trait.ARRANGES, Trait.JOINS),
    _move("dynamic_slice", AtLeast(1), types.dynamic_slice, means.dynamic_slice, 1, updates.dynamic_slice, LOOKUP, SliceSizes,
          Trait.TAKES),
    _move("dynamic_update_slice", AtLeast(2), types.dynamic_update_slice, means.dynamic_update_slice, 2, updates.dynamic_update_slice,
          LOOKUP),
    Op(name="gather", operands=2, types=types.gather, evaluate=means.of_node(means.gather), error=errors.move(1), rule=gather.gather,
       kernel=LOOKUP, flops=no_flops, attributes=Gather,
       traits=frozenset((Trait.TAKES,))),
)  # fmt: skip

VIEWS = (  # Views of stored values, which fusion creates. They copy nothing.
    _move("view", 1, types.view, means.view, 1, NO_RULE, NO_KERNEL, NoAttributes, Trait.VIEW),
    _move("subview", 1, types.sliced, means.sliced, 1, NO_RULE, NO_KERNEL, Slice, Trait.VIEW),
    _move("join", AtLeast(1), types.concatenate, means.concatenate, -1, NO_RULE, NO_KERNEL, OneDim),
)

IN_PLACE = (  # A dynamic_update_slice whose result aliases the first operand, so that a kernel writes only the window.
    _move("update_in_place", AtLeast(2), types.dynamic_update_slice, means.dynamic_update_slice, 2, NO_RULE, LOOKUP),
)  # fmt: skip

INDEXED = (  # Index maps that exist only inside kernel generation.
    _move("windows", 1, types.windows, means.windows, 1, NO_RULE, LAYOUT, Windows),
)  # fmt: skip

OPS = (*SOURCES, *MOVES, *VIEWS, *IN_PLACE, *INDEXED)
