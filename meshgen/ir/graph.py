"""The graph that every pass works on: values, nodes, kernels and a module.

Plain Python over NumPy, so that a deployment machine can execute it: xDSL is the reader, printer and
verifier of its text form (`mlir/text.py`), and nothing below depends on it. A node is one operation; its
`op` is the StableHLO mnemonic (`add`, `dot_general`, ...) or one of the sharding ops (`annotate`,
`all_gather`, ...) and its `attrs` are a frozen dataclass (`attributes/`). `docs/architecture.md` lists both.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from meshgen.errors import Location
from meshgen.ir.attributes.base import NO_ATTRIBUTES
from meshgen.ir.attributes.table import KINDS, attributes_of
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.ir.dtypes import DTYPES
from meshgen.ir.notes import NO_NOTES, Notes
from meshgen.mesh import Mesh
from meshgen.spec import Sharding

COMPLEX_PARTS = {"c64": "f32", "c128": "f64"}  # the element type of the real and imaginary parts
_NAMES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in DTYPES.items()}


TOKEN = ((0,), "i1")  # the value of an order of side effects at the ends of a program: empty
FETCH_NUMBERS = 6  # that describe one of the `parts` of a `fetch_rows`: start, tile, base, step, rows, limit


def dtype_name(dtype: Any) -> str:
    """The element type's name in the IR (`f32`, `bf16`, `i1`, ...). Raises KeyError for an unknown one."""
    return _NAMES[np.dtype(dtype)]


def is_float(dtype: str) -> bool:
    """Whether the element type is a floating-point one."""
    return dtype.startswith(("f", "bf"))


def is_complex(dtype: str) -> bool:
    """Whether the element type is a complex one: `c64` is a pair of f32, `c128` of f64."""
    return dtype.startswith("c")


def is_inexact(dtype: str) -> bool:
    """Whether values of the element type are rounded."""
    return is_float(dtype) or is_complex(dtype)


def real_dtype(dtype: str) -> str:
    """The element type of the parts of a complex one; any other itself."""
    return COMPLEX_PARTS.get(dtype, dtype)


class OpenSizeError(ValueError):
    """A size of a tensor was needed that is unknown until load."""


@dataclass(frozen=True)
class TensorType:
    """Shape (a size is None where it is unknown until load) and element type of a tensor."""

    shape: tuple[int | None, ...]
    dtype: str

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.dtype))

    def __reduce__(self) -> tuple[type[TensorType], tuple[Any, ...]]:
        """What is remembered stays here: texts have other hashes in another process."""
        return TensorType, (self.shape, self.dtype)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The shape where all sizes are known. Raises OpenSizeError otherwise."""
        known = tuple(size for size in self.shape if size is not None)
        if len(known) != len(self.shape):
            raise OpenSizeError(f"{self} has sizes that are unknown until load")
        return known

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return DTYPES[self.dtype]

    @cached_property
    def nbytes(self) -> int:
        return self.size * DTYPES[self.dtype].itemsize

    def with_shape(self, shape: Iterable[int | None]) -> TensorType:
        return TensorType(tuple(shape), self.dtype)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join('?' if s is None else str(s) for s in self.shape)}]"


@dataclass(eq=False)
class Value:
    """A tensor: an input of the graph or a result of a node.

    `sharding` is set from the `materialize` stage on (there `type` is global) and dropped by `partition`
    (there `type` is the local one). `name` is the user's or the text's name, without `%`. `granted` numbers the annotations
    (`annotations_of` the program at stage `propagate`) whose value this is, with the annotated sharding: their trace after `materialize`. Where one of them was required for its
    users, `is_bound`: its users must keep reading it with this sharding. `id` is its own; passes hand it on to what the value becomes, so that
    reports find it again at other stages.
    """

    type: TensorType
    name: str = ""
    sharding: Sharding | None = None
    loc: Location | None = None
    granted: tuple[int, ...] = ()
    is_bound: bool = False
    id: int = field(default_factory=itertools.count().__next__)

    def stands_for(self, other: Value) -> None:
        """Record that this replaces `other`, with the same sharding."""
        self.granted += tuple(number for number in other.granted if number not in self.granted)
        self.is_bound |= other.is_bound


@dataclass(frozen=True)
class NodeSharding:
    """The decision of propagation for one node: shardings of its operands and results, and its option.

    `option` holds the mesh axes of each loop (factor) of the op's rule, major to minor; `why` one line
    per axis that the op uses: its provenance (annotation, value, source line), and what was rejected.
    """

    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    option: tuple[tuple[str, ...], ...] = ()
    why: tuple[str, ...] = ()


@dataclass(eq=False)
class Node:
    """One operation: `results = op(operands) {attrs}`. `regions` hold the bodies of control flow.

    `attrs` are what the op means: of the class that its record names (`ir/attributes`). `option` is the user's annotation: the mesh axes of each loop (factor) of the op's
    rule, major to minor; it counts the loops of this node, so what takes the node's place has none. `notes` are what
    passes note.
    """

    op: str
    operands: list[Value]
    results: list[Value]
    attrs: Any = NO_ATTRIBUTES
    loc: Location | None = None
    sharding: NodeSharding | None = None
    regions: tuple[Graph, ...] = ()
    option: tuple[tuple[str, ...], ...] | None = None
    notes: Notes = NO_NOTES

    def __post_init__(self) -> None:
        if type(self.attrs) is not KINDS.get(self.op):
            self.attrs = attributes_of(self.op, self.attrs)

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value


class GraphIndex:
    """The def-use index of a graph: who produces and who uses each value. Tables are made when they are first read."""

    def __init__(self, graph: Graph) -> None:
        self._inputs, self._nodes, self._outputs = graph.inputs, graph.nodes, graph.outputs
        self._state = self._state_of(graph)
        self.results: dict[Hashable, Any] = {}  # of analyses of the graph (`ir/analysis.py`)

    @staticmethod
    def _state_of(graph: Graph) -> tuple[object, ...]:
        return len(graph.nodes), graph.nodes[-1] if graph.nodes else None, len(graph.outputs)

    def holds_for(self, graph: Graph) -> bool:
        """Whether the graph has the nodes and outputs that it had; passes replace nodes in new graphs only."""
        is_same = self._nodes is graph.nodes and self._outputs is graph.outputs
        return is_same and self._state == self._state_of(graph)

    @cached_property
    def producers(self) -> Mapping[Value, Node]:
        """The node that produces each value; inputs are absent."""
        return {result: node for node in self._nodes for result in node.results}

    @cached_property
    def positions(self) -> Mapping[Value, int]:
        """The position in program order of the node that produces each value."""
        return {value: position for position, node in enumerate(self._nodes) for value in node.results}

    @cached_property
    def uses(self) -> Mapping[Value, Sequence[tuple[Node, int]]]:
        """Uses of each value as (node, operand number), in program order; graph outputs are not uses.

        Values of the graphs around a body are included where it uses them.
        """
        table: dict[Value, list[tuple[Node, int]]] = {value: [] for value in (*self._inputs, *self.positions)}
        for node in self._nodes:
            for number, operand in enumerate(node.operands):
                table.setdefault(operand, []).append((node, number))
        return table

    @cached_property
    def use_counts(self) -> Mapping[Value, int]:
        """How often each value is used, as an output and in regions too."""
        counts = Counter(self._outputs)
        for node in self._nodes:
            counts.update(node.operands)
            for region in node.regions:
                counts.update(region.index.use_counts)
        return counts

    @cached_property
    def ops(self) -> frozenset[str]:
        """The ops of the graph and its regions."""
        inner = (region.index.ops for node in self._nodes for region in node.regions)
        return frozenset({node.op for node in self._nodes}).union(*inner)


@dataclass(eq=False)
class Graph:
    """A function: nodes in program order, each after the nodes that make its operands.

    `template` is the name of the kernel template that was chosen for the body of a kernel; empty where none was.
    """

    name: str
    inputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    template: str = ""
    _index: GraphIndex | None = field(default=None, init=False, repr=False)

    def add(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], attrs: Mapping[str, Any] | None = None,
            *, loc: Location | None = None, name: str = "", notes: Notes = NO_NOTES) -> Node:  # fmt: skip
        """Append a node with fresh results and return it."""
        results = [
            Value(t, name if len(types) == 1 else f"{name}_{i}" if name else "", loc=loc) for i, t in enumerate(types)
        ]
        node = Node(op, list(operands), results, attrs or NO_ATTRIBUTES, loc, notes=notes)
        self.nodes.append(node)
        return node

    @property
    def index(self) -> GraphIndex:
        """The def-use index of the present nodes: kept until nodes or outputs are added."""
        if self._index is None or not self._index.holds_for(self):
            self._index = GraphIndex(self)
        return self._index

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_index": None}

    def values(self) -> Iterator[Value]:
        """Inputs, then results in program order."""
        yield from self.inputs
        for node in self.nodes:
            yield from node.results


@dataclass(frozen=True)
class Annotation:
    """A user's annotation of an input or output of the graph.

    `open_dims[d]` allows further axes on dim d. A required annotation is kept exactly, a hint may be dropped.
    """

    sharding: Sharding
    required: bool = True
    open_dims: tuple[bool, ...] = ()
    loc: Location | None = None


STAGES = ("import", "propagate", "materialize", "optimize", "partition", "fuse", "schedule")


@dataclass(eq=False)
class Module:
    """A program at one stage, over one mesh or several.

    A program on several meshes has them in `meshes`; shardings at stage `import` name theirs. From
    `propagate` on it is in `parts`: a module per mesh, between them pairs of `transfer_send` and `transfer_recv`;
    the module around them has no nodes, and its inputs and outputs are those of the whole program.

    `in_annotations` / `out_annotations` belong to the inputs / outputs of `graph` (None: not
    annotated). From `partition` on, `in_shardings` / `out_shardings` and `in_types` / `out_types` keep the
    global signature. `kernels` are the bodies that `kernel` nodes name, from `fuse` on. `donations` are the inputs, by number, that
    callers donate, and the output that is the next value of each (None: no next value is known, and the memory is reused for any
    output that fits; see `ir/donation.py`). `result_paths` are the paths of outputs in the structure that JAX's text names.

    `in_numbers` / `out_numbers` number a part's inputs / outputs in the whole program. `reordered` are meshes whose device order is
    dropped, with their devices; `nominal_sizes` were assumed for open axes. `chunks` are decisions, `memory_cap` is their limit in bytes.
    """

    mesh: Mesh
    graph: Graph
    stage: str = "import"
    name: str = "main"
    in_annotations: list[Annotation | None] = field(default_factory=list)
    out_annotations: list[Annotation | None] = field(default_factory=list)
    in_types: list[TensorType] = field(default_factory=list)
    out_types: list[TensorType] = field(default_factory=list)
    in_shardings: list[Sharding] = field(default_factory=list)
    out_shardings: list[Sharding] = field(default_factory=list)
    arguments: str = "local"  # "local": arguments are shards already; "global": sliced by process index
    kernels: dict[str, Graph] = field(default_factory=dict)
    meshes: tuple[Mesh, ...] = ()
    parts: list[Module] = field(default_factory=list["Module"])
    donations: dict[int, int | None] = field(default_factory=dict[int, "int | None"])
    result_paths: dict[int, str] = field(default_factory=dict[int, str])
    in_numbers: tuple[int, ...] | None = None
    out_numbers: tuple[int, ...] | None = None
    reordered: dict[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])
    nominal_sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    chunks: tuple[ChunkDecision, ...] = ()
    memory_cap: int | None = None

    def __repr__(self) -> str:
        place = " and ".join(f"@{mesh.name} {mesh}" for mesh in self.meshes) if self.meshes else str(self.mesh)
        return f"Module({self.name!r}, {place}, stage {self.stage!r}, {len(self.graph.nodes)} operations)"
