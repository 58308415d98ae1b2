"""A random graph that grows op by op.

Discontinuous ops (compare, sort, floor) only get exact values: their bits do not depend on the partitioning, because no
sum across devices contributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value, is_float, is_inexact
from meshgen.ir.symbols import Dim
from meshgen.mesh import Mesh
from meshgen.ops.types.inference import infer_types

MAX_SIZE = 13  # maximum size of a random dim. Chosen: some sizes are divisible by the axis sizes, others are not
MAX_ELEMENTS = 4096  # maximum elements of a value. Chosen: NumPy computes an op in a fraction of a millisecond
_DTYPES = (*["f32"] * 8, "bf16", "bf16", *["i32"] * 3, "i1", "i1", "f16", "f64", "i8", "ui8", "i64", "ui32")
INTEGERS = ("i32", "i64", "i8", "ui8", "ui32")
NUMBERS = ("f32", "bf16", "f16", "f64", *INTEGERS)
Accept = Callable[[Value], bool]


@dataclass(frozen=True)
class Variety:
    """The possible inputs and meshes of random programs.

    Attributes:
        dtypes: element types of inputs; frequent ones are listed several times.
        reals, wholes: the float types and the integer types for ops that support only a few types.
        more: further types, which only copies, additions and multiplications support.
        empty: probability that a dim has size 0.
        twice: probability that an op uses one value for two operands.
        axes, sizes, devices: maximum number of mesh axes, possible axis sizes, and maximum number of devices.
        cuts: whether shardings split an axis in any way, so that the sub-axes of two shardings need not nest.
        named: probability that a dim of an input has a name, so that its size can be opened.
    """

    dtypes: tuple[str, ...] = _DTYPES
    reals: tuple[str, ...] = ("f32",)
    wholes: tuple[str, ...] = ("i32",)
    more: tuple[str, ...] = ()
    empty: float = 0.0
    twice: float = 0.0
    axes: int = 4
    sizes: tuple[int, ...] = (1, 2, 2, 2, 3, 4, 5, 6, 8)
    devices: int = 8
    cuts: bool = False
    named: float = 0.0


USUAL = Variety()
WIDE = Variety(
    dtypes=(*_DTYPES[-9:], "f32", "f16", "bf16", "f64", "i32", "i1", "i16", "ui16", "ui64"),
    reals=("f32", "f64", "f16", "bf16"),
    wholes=(*INTEGERS, "i16", "ui16", "ui64"),
    empty=0.06,
)
OPEN = Variety(named=0.6)
ODD = Variety(
    dtypes=(*["f32"] * 5, *["f64"] * 3, *["c64"] * 3, *["c128"] * 3, *["i32"] * 4, "i1", "bf16", "i64", "ui8"),
    reals=("f32", "f64"),
    more=("c64", "c128"),
    twice=0.4,
    axes=6,
    sizes=(1, 1, 2, 2, 2, 3, 4, 6, 6, 8, 12, 12),
    devices=12,
    cuts=True,
)


@dataclass
class Writer:
    """Builds a random graph for a mesh by appending ops with the generators in `ops`.

    `exact` lists the values that are bitwise equal for every partitioning.
    """

    rng: np.random.Generator
    mesh: Mesh
    ops: Sequence[Callable[[Any], None]] = ()
    graph: Graph = field(default_factory=lambda: Graph("main"))
    values: list[Value] = field(default_factory=list[Value])
    exact: list[Value] = field(default_factory=list[Value])
    variety: Variety = USUAL

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[self.integer(0, len(options))]

    def order(self, count: int) -> list[int]:
        """Return the integers below `count` in random order."""
        return [int(index) for index in self.rng.permutation(count)]

    def shape(self, rank: int) -> tuple[int, ...]:
        sizes = [self.integer(1, MAX_SIZE + 1) for _ in range(rank)]
        while math.prod(sizes) > MAX_ELEMENTS // 4:
            sizes[sizes.index(max(sizes))] //= 2
        if self.variety.empty:
            sizes = [0 if self.chance(self.variety.empty) else size for size in sizes]
        return tuple(sizes)

    def _shape_with_names(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape in which some sizes have names, so that they can be opened."""
        if not self.variety.named:
            return shape
        start = f"n{len(self.graph.inputs)}_"
        return tuple(Dim.named(f"{start}{d}", n) if self.chance(self.variety.named) else n for d, n in enumerate(shape))

    def new_input(self, type_: TensorType | None = None) -> Value:
        type_ = type_ or TensorType(
            self._shape_with_names(self.shape(self.integer(0, 5))), self.one_of(self.variety.dtypes)
        )
        value = Value(type_, f"arg{len(self.graph.inputs)}")
        self.graph.inputs.append(value)
        self.exact.append(value)
        self.values.append(value)
        return value

    def pick(self, accept: Accept = lambda value: True, *, exact: bool = False, empty: bool = False) -> Value | None:
        """Return a random value of the graph that `accept` accepts, or None if there are none such. Later values are
        more likely, which favors chains.

        Args:
            exact: whether to consider exact values only.
            empty: whether values without elements are allowed.
        """
        candidates = self.exact if exact else self.values
        fitting = [value for value in candidates if (empty or value.type.size) and accept(value)]
        return fitting[max(self.integer(0, len(fitting)), self.integer(0, len(fitting)))] if fitting else None

    def reals(self, *, rank: int = 0, most: int = 9) -> Accept:
        """Return the predicate `has_type` for the float types that most ops support."""
        return has_type(*self.variety.reals, rank=rank, most=most)

    def numbers(self, *, rank: int = 0, most: int = 9) -> Accept:
        """Return the predicate `has_type` for the float and integer types that most ops support."""
        return has_type(*self.variety.reals, *self.variety.wholes, rank=rank, most=most)

    def sums(self, *, rank: int = 0, most: int = 9) -> Accept:
        """Return a predicate like `numbers` that also accepts complex types, for ops that only add and multiply."""
        variety = self.variety
        return has_type(*variety.reals, *variety.wholes, *variety.more, rank=rank, most=most)

    def partner(self, value: Value, *, exact: bool = False) -> Value:
        """Return another operand of the same type: an existing value, possibly `value` itself, or a new input."""
        if self.variety.twice and self.chance(self.variety.twice):
            return value
        candidates = [v for v in (self.exact if exact else self.values) if v.type == value.type]
        return self.one_of(candidates) if candidates and self.chance(0.7) else self.new_input(value.type)

    def add(self, op: str, operands: list[Value], kind: TensorType | None = None, attrs: Mapping[str, Any] | None = None,
            *, regions: tuple[Graph, ...] = (), rounds: bool = False) -> Value:  # fmt: skip
        """Append an op and return the first result.

        Args:
            kind: type of the only result; None if the operands determine the types.
            rounds: whether the last bits of the results depend on the partitioning.
        """
        types = [kind] if kind else infer_types(op, attrs or {}, [v.type for v in operands], regions)
        assert types, f"'{op}' needs its result type"
        name = f"v{len(self.graph.nodes)}"
        node = self.graph.add(op, operands, types, dict(attrs or {}), name=name)
        node.regions = regions
        self.values += node.results
        if not rounds and all(v in self.exact for v in operands):
            self.exact += node.results
        return node.results[0]

    def append(self, op: str, operands: list[Value], kinds: list[TensorType], regions: tuple[Graph, ...]) -> None:
        """Append an op with results of the given types. The program continues with the last result only."""
        results = [Value(type_, f"v{len(self.graph.nodes)}_{i}") for i, type_ in enumerate(kinds)]
        self.graph.nodes.append(Node(op, operands, results, {}, None, None, regions))
        self.values.append(results[-1])

    def scalar(self, value: float, dtype: str) -> Value:
        return self.add("constant", [], TensorType((), dtype), {"value": np.array(value, DTYPES[dtype])})

    def constant(self, type_: TensorType) -> Value:
        """Return a constant of small positive numbers, sometimes all equal."""
        shape = type_.sizes if self.chance(0.5) else (1,) * type_.rank
        value = np.asarray(self.rng.integers(1, 5, shape)).astype(DTYPES[type_.dtype])
        return self.add("constant", [], type_, {"value": np.broadcast_to(value, type_.sizes)})


def has_type(*dtypes: str, rank: int = 0, most: int = 9) -> Accept:
    """Return a predicate for values of the given element types (any type if empty) and of rank `rank` to `most`."""
    return lambda value: rank <= value.type.rank <= most and (not dtypes or value.type.dtype in dtypes)


def lowest(dtype: str) -> int:
    """Return a lower bound of the numbers that a random program can contain in element type `dtype`."""
    return 0 if dtype.startswith("ui") else -100


def floats(value: Value) -> bool:
    return is_float(value.type.dtype)


def rounded(value: Value) -> bool:
    """Whether sums and products of the value are rounded, so that their bits depend on the order of the operations."""
    return is_inexact(value.type.dtype)


def changed(sizes: Sequence[int], dim: int, size: int) -> tuple[int, ...]:
    """Return the sizes with the size of one dim replaced."""
    return (*sizes[:dim], size, *sizes[dim + 1 :])


def binary_body(op: str, dtype: str, attrs: Mapping[str, Any] | None = None, pairs: int = 1) -> Graph:
    """Return a region with one op on its first two inputs, and 2 * `pairs` inputs in total."""
    type_ = TensorType((), dtype)
    body = Graph("body", [Value(type_, f"{side}{i}") for i in range(pairs) for side in "ab"])
    types = infer_types(op, attrs or {}, [type_, type_])
    assert types, f"'{op}' has a type"
    body.outputs = [body.add(op, body.inputs[:2], types, dict(attrs or {})).result]
    return body
