"""What an op is, as one record: types, meaning, errors, sharding rule, kernel form, arithmetic.

A family is a file of records (`elementwise.py`, `movement.py`, ...); `__init__.py` lists the families. What a record does not
have is said by name (`NO_KERNEL`, `NO_RULE`, ...): a field that is left out fails when the family is imported.
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
from meshgen.ops.tolerance.values import Rule as ErrorRule
from meshgen.ops.triton.registers import Expression
from meshgen.ops.types.site import Inference

TypeOf: TypeAlias = Callable[[Value], TensorType]
"""The type of a value: its own, or that of a tile of it."""
RuleOf: TypeAlias = Callable[[Node], Rule]
Flops: TypeAlias = Callable[[Node, TypeOf], float]
Decompose: TypeAlias = Callable[[FactorWriter], Sequence[Value]]
"""Append the operations that a composite stands for, on the writer's operands; returns a value for each result of the node."""


class Trait(Enum):
    """What else passes ask of an op."""

    ELEMENTWISE = (
        "an element of the result is made of the elements of the operands at the same place, or of 0-d operands"
    )
    TYPED = "its source in kernels needs operands of known types: literals are put into registers first"
    BROADCASTS = "evaluation broadcasts its operands: bodies of such ops alone run on whole arrays at once"
    JUMPS = "the result is a step function of an operand: where it jumps, any error decides"
    POLES = "a small error of an operand may become any error of the result"
    EXPENSIVE = "many instructions per element: worth keeping in memory rather than computing twice"
    LOCAL = "tells devices apart without communicating"
    OF_RANK = "depends on where its device is in its group, and does not communicate"
    ARRANGES = "its elements are those of its operands, or a fill, at places given by its attributes"
    REGROUPS = "its elements are those of its operand in the same order, in dims that are merged and split"
    JOINS = "its operands one after the other along a dim"
    TAKES = "reads a part of its first operand only"
    LEAVES = "a layout of which some places are outside of its operand: it has a fill for them"
    CONTRACTS = "sums of products of two operands: its arithmetic is what takes time"
    RESHARD = "takes a tensor from one sharding to another by messages between any devices"
    REDUCES = "combines what devices have, and communicates"
    OVERWRITES = (
        "may write its result over its operand: NCCL's reductions, and messages whose steps read before they write"
    )
    AWAITED = "another device waits for it: it stays whoever uses its results"
    VIEW = "each result is the bytes of the operand with its number, or a part of them"
    COLLECTIVE = "of devices, over mesh axes or between two shardings"
    IN_BODIES = "a user may write it in the body of a manual computation"
    SIZE_QUERY = "asks for sizes or takes them as operands; gone once sizes are known"


class Domain(Enum):
    """The range of an operand of an element-wise op in which a small error of it is a small error of the result."""

    ANY = "all numbers of the type"
    POSITIVE = "from 0 on"
    FROM_ONE = "from 1 on"
    FROM_TWO = "from 2 on"
    WITHIN_ONE = "between -1 and 1"
    COUNT = "whole numbers from 1 to 4"


class Kernel(NamedTuple):
    """How generated kernels make an op.

    Attributes:
        form: `expression` of elements in registers; `layout`, an index map that whoever reads the result looks through;
            `source`, elements from nothing; `lookup`, put together from several values or at places that are data;
            `dot` and `reduction`, loop nests that others join; `convolution`, one of these over windows; `ragged`, a dot of groups of rows;
            `attention`, a kernel with an epilogue, where there are tiles for it;
            `nest`, a kernel of its own, whose operands are in memory; `none`.
        expression: of form `expression`, the Triton source over operands in registers.
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

NO_MEANING: None = None
"""The op has no meaning on one device by itself: its meaning is in `meshgen/ccl`, or is that of the kernel it names."""
ANY_ERROR: None = None
"""Nothing is known of how errors go through the op: executions with random errors tell."""
NO_RULE: None = None
"""Propagation never sees the op, or sees it as something else (control flow, manual computations)."""


@dataclass(frozen=True)
class AtLeast:
    """A number of operands that is not fixed."""

    count: int


@dataclass(frozen=True, kw_only=True)
class Op:
    """One op.

    Attributes:
        name: StableHLO's mnemonic, or that of a sharding op.
        operands: how many it takes.
        results: how many it has; None if its nodes decide.
        attributes: the class of the attributes of its nodes (`ir/attributes`): what they must have and may have, and in which form.
        has_regions: whether it takes regions.
        types: result types from operands and attributes; records faults of malformed nodes.
        evaluate: its meaning, on NumPy arrays.
        error: how errors of operands become errors of results.
        rule: its sharding rule.
        kernel: how generated kernels make it.
        flops: operations of one run, without those of its regions.
        domains: of an element-wise op on operands of one type, without attributes: where random programs keep each operand.
        decompose: of a composite, which means what its decomposition does: it has no `evaluate` and no `error` of its own. Its sharding rule,
            types and arithmetic are those of the whole.
        parts: of an op that folds a dim with a monoid: how it is done in parts of the dim.
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
    """Moving, choosing and making data counts as no arithmetic; what regions do is counted there."""
    return 0.0


def per_result(node: Node, type_of: TypeOf) -> float:
    """One operation per element of the results."""
    return float(sum(type_of(value).size for value in node.results))


def per_operand(node: Node, type_of: TypeOf) -> float:
    """One operation per element of the first operand."""
    return float(type_of(node.operands[0]).size)
