"""The records of control flow, manual computations, barriers, recurrences, sorting, scatter, and random bits."""

from __future__ import annotations

import math

from meshgen.ir.attributes.control import Loop, Manual, RandomBits, Scan, TopK
from meshgen.ir.attributes.movement import Scatter, Sort
from meshgen.ir.graph import Node
from meshgen.ops.evaluate import control as means
from meshgen.ops.evaluate import window as folds
from meshgen.ops.op import (
    NEST,
    NO_ERROR_RULE,
    NO_KERNEL,
    NO_RULE,
    NOT_EVALUABLE,
    AtLeast,
    Op,
    Trait,
    TypeOf,
    no_flops,
    per_result,
)
from meshgen.ops.parts import ranking
from meshgen.ops.rules import updates as rules
from meshgen.ops.tolerance import movement as errors
from meshgen.ops.tolerance import region_reductions as fold_errors
from meshgen.ops.types import control as types


def _comparisons(node: Node, type_of: TypeOf) -> float:
    """Return the comparisons of a merge sort: n log2 n for each row of n elements."""
    operand_type = type_of(node.operands[0])
    dim = node.attrs.get("dim", operand_type.rank - 1)
    return operand_type.size * math.log2(max(2, operand_type.sizes[dim])) if operand_type.rank else 0.0


def _updates(node: Node, type_of: TypeOf) -> float:
    """Return one operation per element of all updates. The operands of a scatter are n inputs, the indices, and n
    updates.
    """
    count = (len(node.operands) - 1) // 2
    return float(sum(type_of(value).size for value in node.operands[count + 1 :]))


def _loop_flops(node: Node, type_of: TypeOf) -> float:
    """Return one operation per result element of each node in the body, times the trip count."""
    return float(
        node.attrs.trips * sum(type_of(value).size for inner in node.regions[0].nodes for value in inner.results)
    )


CONTROL = (
    Op(name="while", operands=AtLeast(0), types=types.while_loop, evaluate=means.while_loop, error=NO_ERROR_RULE, rule=NO_RULE,
       kernel=NO_KERNEL, flops=no_flops, attributes=Loop, has_regions=True),
    Op(name="scan", operands=AtLeast(0), types=types.scan, evaluate=means.scan, error=NO_ERROR_RULE, rule=NO_RULE,
       kernel=NO_KERNEL, flops=no_flops, attributes=Scan, has_regions=True),
    Op(name="if", operands=AtLeast(1), types=types.conditional, evaluate=means.conditional, error=NO_ERROR_RULE, rule=NO_RULE,
       kernel=NO_KERNEL, flops=no_flops, has_regions=True),
    Op(name="case", operands=AtLeast(1), types=types.switch, evaluate=means.switch, error=NO_ERROR_RULE, rule=NO_RULE,
       kernel=NO_KERNEL, flops=no_flops, has_regions=True),
    Op(name="manual", operands=AtLeast(0), types=types.manual, evaluate=NOT_EVALUABLE, error=NO_ERROR_RULE, rule=NO_RULE,
       kernel=NO_KERNEL, flops=no_flops, results=None, has_regions=True,
       attributes=Manual),
)  # fmt: skip

OPS = (
    *CONTROL,
    Op(name="optimization_barrier", operands=AtLeast(1), types=types.optimization_barrier, evaluate=means.optimization_barrier,
       error=errors.identities, rule=NO_RULE, kernel=NO_KERNEL, flops=no_flops, results=None, traits=frozenset((Trait.VIEW,))),
    Op(name="recurrence", operands=AtLeast(1), types=types.scan, evaluate=means.scan, error=NO_ERROR_RULE, rule=NO_RULE, kernel=NEST,
       flops=_loop_flops, attributes=Scan, has_regions=True),
    Op(name="sort", operands=AtLeast(1), types=types.sort_rows, evaluate=means.sort_rows, error=errors.in_order, rule=rules.sort,
       kernel=NEST, flops=_comparisons, attributes=Sort, has_regions=True),
    Op(name="top_k", operands=1, types=types.top_k, evaluate=means.top_k, error=errors.in_order, rule=rules.sort, kernel=NEST,
       flops=_comparisons, attributes=TopK, parts=ranking.top_k),
    Op(name="scatter", operands=AtLeast(3), types=types.scatter, evaluate=folds.scatter, error=fold_errors.scatter,
       rule=rules.scatter, kernel=NEST, flops=_updates, has_regions=True,
       attributes=Scatter),
    Op(name="rng_bit_generator", operands=1, types=types.rng_bit_generator, evaluate=means.rng_bit_generator, error=NO_ERROR_RULE,
       rule=rules.rng_bit_generator, kernel=NO_KERNEL, flops=per_result, results=2, attributes=RandomBits),
)  # fmt: skip
