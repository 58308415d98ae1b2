"""The record of an op: types, semantics, error rule, sharding rule, kernel form, operation count.

An op family is a file of records (`elementwise.py`, `movement.py`, ...); `__init__.py` lists the families. The author
of a record states a missing property explicitly (`NO_KERNEL`, `NO_RULE`, ...): importing a family fails if a required
field is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from meshgen.ir.attributes.base import Attributes, NoAttributes
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.decompositions.writer import FactorWriter
from meshgen.ops.evaluate.common import Handler
from meshgen.ops.parts.base import PartsOf
from meshgen.ops.rules.rule import Rule
from meshgen.ops.tolerance.tracked import Rule as ErrorRule
from meshgen.ops.triton.registers import Expression
from meshgen.ops.types.site import Inference

TypeOf: TypeAlias = Callable[[Value], TensorType]
"""Returns the type of a value: its own type, or the type of one of its tiles."""
RuleOf: TypeAlias = Callable[[Node], Rule]
Flops: TypeAlias = Callable[[Node, TypeOf], float]
Decompose: TypeAlias = Callable[[FactorWriter], Sequence[Value]]
"""Append the decomposition of a composite to the writer's graph, and return one value per result of the node."""


class Trait(Enum):
    """Properties of ops. Passes query them instead of naming single ops."""

    ELEMENTWISE = "each result element is computed from the operand elements at the same index, or from 0-d operands"
    TYPED = "its kernel source needs typed operands, so literals are put into registers first"
    BROADCASTS = "its evaluation broadcasts operands, so a body of only such ops runs on entire arrays at once"
    DISCONTINUOUS = "discontinuous: an arbitrarily small input error can change the result (floor, comparisons)"
    POLES = "has poles: a small operand error can cause an arbitrarily large result error"
    EXPENSIVE = "many instructions per element: loading a stored result is cheaper than recomputing it"
    LOCAL = "differs between devices and does not communicate"
    OF_RANK = "depends on the rank of its device in the group, and does not communicate"
    ARRANGES = "moves elements: the attributes map each result element to an operand element or a fill value"
    REGROUPS = "merges and splits dims; the elements keep their order"
    JOINS = "concatenates its operands along a dim"
    TAKES = "reads only a part of its first operand"
    LEAVES = "a layout op that fills the result elements which lie outside of its operand"
    CONTRACTS = "sums products of two operands: arithmetic dominates its time"
    RESHARD = "changes the sharding of a tensor by messages between arbitrary devices"
    REDUCES = "reduces the values of several devices by communication"
    OVERWRITES = "may write its result in place: NCCL's reductions, and messages whose steps read before they write"
    AWAITED = "another device waits for it, so it is live even if its results are unused"
    VIEW = "each result aliases the operand with the same index, or a part of it"
    COLLECTIVE = "runs on several devices, over mesh axes or between two shardings"
    IN_BODIES = "users may write it in the body of a manual computation"
    SIZE_QUERY = "queries sizes or takes them as operands; folded once sizes are known"


class Domain(Enum):
    """The operand range of an element-wise op in which small operand errors cause only small result errors."""

    ANY = "all values of the type"
    POSITIVE = "x >= 0"
    FROM_ONE = "x >= 1"
    FROM_TWO = "x >= 2"
    WITHIN_ONE = "-1 <= x <= 1"
    COUNT = "integers from 1 to 4"


class Kernel(NamedTuple):
    """How generated kernels compute an op.

    Attributes:
        form: the form of the generated code.
            `expression`: element-wise on registers.
            `layout`: an index map that the consumer applies when it loads.
            `source`: elements computed from their index, without operands.
            `lookup`: elements selected from several operands or at computed indices.
            `dot`, `reduction`: a loop nest that other ops are fused into.
            `convolution`: a `dot` over windows.
            `ragged`: a `dot` over groups of rows.
            `attention`: a kernel template with an epilogue, for the supported tile shapes.
            `nest`: a separate kernel that loads its operands from memory.
            `none`: no kernel.
        expression: for form `expression`, a function that returns Triton source for operands in registers.
    """

    form: Literal[
        "expression",
        "layout",
        "source",
        "lookup",
        "dot",
        "ragged",
        "convolution",
        "attention",
        "reduction",
        "nest",
        "none",
    ]
    expression: Expression | None = None


NO_KERNEL = Kernel("none")
LAYOUT, SOURCE, LOOKUP = Kernel("layout"), Kernel("source"), Kernel("lookup")
DOT, RAGGED, CONVOLUTION = Kernel("dot"), Kernel("ragged"), Kernel("convolution")
ATTENTION, REDUCTION, NEST = Kernel("attention"), Kernel("reduction"), Kernel("nest")

NOT_EVALUABLE: None = None
"""The op has no semantics on one device: they are defined in `meshgen/ccl`, or by the kernel that the node names."""
NO_ERROR_RULE: None = None
"""No error rule: error propagation is measured by executions with random errors."""
NO_RULE: None = None
"""Propagation never sees the op, or handles it separately (control flow, manual computations)."""


@dataclass(frozen=True)
class AtLeast:
    """The operand count of a variadic op: a minimum."""

    count: int


@dataclass(frozen=True, kw_only=True)
class Op:
    """The record of an op.

    Attributes:
        name: the StableHLO mnemonic, or the name of a sharding op.
        operands: the number of operands.
        results: the number of results; None if it differs between nodes.
        attributes: the attribute class of nodes with this op (`ir/attributes`).
        has_regions: whether nodes with this op have regions.
        types: infers result types from operands and attributes, and records the faults of malformed nodes.
        evaluate: the semantics on NumPy arrays.
        error: how operand errors propagate to the results.
        rule: the sharding rule.
        kernel: how generated kernels compute the op.
        flops: the arithmetic operations of one run, excluding regions.
        domains: for an element-wise op without attributes, the range of each operand in random test programs.
        decompose: for a composite, builds the decomposition that defines its semantics. A composite has no `evaluate`
            and no `error`, but has a sharding rule, types and an operation count.
        parts: for an op that reduces a dim with a monoid, how to split the dim into parts (as in split-K).
    """

    name: str
    operands: int | AtLeast
    types: Inference
    evaluate: Handler | None
    error: ErrorRule | None
    rule: RuleOf | None
    kernel: Kernel
    flops: Flops
    results: int | None = 1
    attributes: type[Attributes] = NoAttributes
    has_regions: bool = False
    traits: frozenset[Trait] = frozenset()
    domains: tuple[Domain, ...] = ()
    decompose: Decompose | None = None
    parts: PartsOf | None = None


def no_flops(node: Node, type_of: TypeOf) -> float:
    """Return 0, for ops that only move data."""
    return 0.0


def per_result(node: Node, type_of: TypeOf) -> float:
    """Return one operation per result element."""
    return float(sum(type_of(value).size for value in node.results))


def per_operand(node: Node, type_of: TypeOf) -> float:
    """Return one operation per element of the first operand."""
    return float(type_of(node.operands[0]).size)
