"""The IR that every pass works on: values, nodes, graphs and modules.

Plain Python over NumPy, so that a deployment machine can execute it without xDSL, which only reads, prints and verifies
the text form (`mlir/text.py`). `docs/ir.md` lists the ops and their attributes (`attributes/`).
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

# complex element type -> element type of the real and of the imaginary part
COMPLEX_PARTS = {"c64": "f32", "c128": "f64"}
_NAMES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in DTYPES.items()}

# shape and element type of a token (an order of side effects) among a program's inputs and outputs: an empty tensor
TOKEN = ((0,), "i1")
# number of integers per range in `FetchRows.parts`: start, tile, base, step, rows, limit (`ccl/halo.py`)
FETCH_NUMBERS = 6


def dtype_name(dtype: Any) -> str:
    """Return the element type's name in the IR (`f32`, `bf16`, `i1`, ...). Raises KeyError for an unknown one."""
    return _NAMES[np.dtype(dtype)]


def is_float(dtype: str) -> bool:
    """Whether the element type is a real floating-point type."""
    return dtype.startswith(("f", "bf"))


def is_complex(dtype: str) -> bool:
    """Whether the element type is complex: `c64` is a pair of f32, `c128` of f64."""
    return dtype.startswith("c")


def is_inexact(dtype: str) -> bool:
    """Whether arithmetic on the element type rounds: floats and complex numbers."""
    return is_float(dtype) or is_complex(dtype)


def real_dtype(dtype: str) -> str:
    """Return the element type of the real part; a real element type is returned unchanged."""
    return COMPLEX_PARTS.get(dtype, dtype)


class OpenSizeError(ValueError):
    """A pass needs a tensor size that is unknown until the module is loaded."""


@dataclass(frozen=True)
class TensorType:
    """The shape and element type of a tensor. A size in the shape is None if it is unknown until the module is loaded."""

    shape: tuple[int | None, ...]
    dtype: str

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.dtype))

    def __reduce__(self) -> tuple[type[TensorType], tuple[Any, ...]]:
        """Pickle the fields without the cached hash: string hashes differ between processes."""
        return TensorType, (self.shape, self.dtype)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The shape, if all sizes are known. Raises OpenSizeError otherwise."""
        sizes = tuple(size for size in self.shape if size is not None)
        if len(sizes) != len(self.shape):
            raise OpenSizeError(f"{self} has sizes that are unknown until load")
        return sizes

    @cached_property
    def size(self) -> int:
        """The number of elements."""
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
    """An SSA value: a tensor that is an input of a graph or a result of a node.

    Attributes:
        type: the global type in stages up to `optimize`, the local (per-device) type from `partition` on.
        name: the name in the user's program or text, without `%`.
        sharding: set by the stage `materialize` and dropped by `partition`.
        granted: positions of the user's annotations (in `annotations_of` the `propagate` program) that are satisfied.
        is_bound: an annotation in `granted` is required for users of the value: they must keep reading this value.
        id: identity across stages. A pass copies it to a replacement, so that reports can match both values.
    """

    type: TensorType
    name: str = ""
    sharding: Sharding | None = None
    loc: Location | None = None
    granted: tuple[int, ...] = ()
    is_bound: bool = False
    id: int = field(default_factory=itertools.count().__next__)

    def inherit_annotations(self, other: Value) -> None:
        """Take over the satisfied annotations of `other`, which this value replaces with an equal sharding."""
        self.granted += tuple(index for index in other.granted if index not in self.granted)
        self.is_bound |= other.is_bound


@dataclass(frozen=True)
class NodeSharding:
    """The propagation decision for one node: the shardings of its operands and results, and the mesh axes of its loops.

    Attributes:
        option: the mesh axes of each loop (factor) of the op's sharding rule, major to minor.
        why: one line per mesh axis that shards the node: the origin (annotation, value, source line) of the decision
            and the rejected alternatives.
    """

    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    option: tuple[tuple[str, ...], ...] = ()
    why: tuple[str, ...] = ()


@dataclass(eq=False)
class Node:
    """An operation: `results = op(operands) {attrs}`, with `regions` for the bodies of control flow.

    Attributes:
        attrs: the attributes; an instance of the op's class in `ir/attributes`.
        option: the user's annotation of the mesh axes of each loop (factor) of the op's sharding rule, major to minor.
            Nodes that replace this node do not inherit it, because their loops may differ.
        notes: remarks of passes that do not change the semantics.
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
        """The result of a node with one result. Raises ValueError if the node has none or several."""
        (value,) = self.results
        return value


class GraphIndex:
    """The def-use index of a graph: the producer and users of each value. Each table is built on first access."""

    def __init__(self, graph: Graph) -> None:
        self._inputs, self._nodes, self._outputs = graph.inputs, graph.nodes, graph.outputs
        self._fingerprint = self._fingerprint_of(graph)
        self.results: dict[Hashable, Any] = {}  # cached results of graph analyses (`ir/analysis.py`)

    @staticmethod
    def _fingerprint_of(graph: Graph) -> tuple[object, ...]:
        return len(graph.nodes), graph.nodes[-1] if graph.nodes else None, len(graph.outputs)

    def holds_for(self, graph: Graph) -> bool:
        """Whether `graph` still has the indexed nodes and outputs. Passes replace nodes only in new graphs."""
        is_same = self._nodes is graph.nodes and self._outputs is graph.outputs
        return is_same and self._fingerprint == self._fingerprint_of(graph)

    @cached_property
    def producers(self) -> Mapping[Value, Node]:
        """The node that produces each value. Graph inputs are not keys."""
        return {result: node for node in self._nodes for result in node.results}

    @cached_property
    def positions(self) -> Mapping[Value, int]:
        """The position in program order of the node that produces each value."""
        return {value: position for position, node in enumerate(self._nodes) for value in node.results}

    @cached_property
    def uses(self) -> Mapping[Value, Sequence[tuple[Node, int]]]:
        """The uses of each value as (node, operand index): captures count as uses in a region, graph outputs do not."""
        table: dict[Value, list[tuple[Node, int]]] = {value: [] for value in (*self._inputs, *self.positions)}
        for node in self._nodes:
            for index, operand in enumerate(node.operands):
                table.setdefault(operand, []).append((node, index))
        return table

    @cached_property
    def use_counts(self) -> Mapping[Value, int]:
        """The number of uses of each value, including graph outputs and uses in regions."""
        counts = Counter(self._outputs)
        for node in self._nodes:
            counts.update(node.operands)
            for region in node.regions:
                counts.update(region.index.use_counts)
        return counts

    @cached_property
    def ops(self) -> frozenset[str]:
        """The names of all ops that occur in the graph or its regions."""
        inner = (region.index.ops for node in self._nodes for region in node.regions)
        return frozenset({node.op for node in self._nodes}).union(*inner)


@dataclass(eq=False)
class Graph:
    """A function: nodes in program order, producers before users. For a kernel body, `template` names the kernel
    template.
    """

    name: str
    inputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    template: str = ""
    _index: GraphIndex | None = field(default=None, init=False, repr=False)

    def add(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], attrs: Mapping[str, Any] | None = None,
            *, loc: Location | None = None, name: str = "", notes: Notes = NO_NOTES) -> Node:  # fmt: skip
        """Append a node with one new result per entry of `types`, and return the node."""
        results = [
            Value(t, name if len(types) == 1 else f"{name}_{i}" if name else "", loc=loc) for i, t in enumerate(types)
        ]
        node = Node(op, list(operands), results, attrs or NO_ATTRIBUTES, loc, notes=notes)
        self.nodes.append(node)
        return node

    @property
    def index(self) -> GraphIndex:
        """The def-use index of the graph. It is rebuilt after nodes or outputs were added."""
        if self._index is None or not self._index.holds_for(self):
            self._index = GraphIndex(self)
        return self._index

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_index": None}

    def values(self) -> Iterator[Value]:
        """Yield the graph inputs, then the results of all nodes in program order."""
        yield from self.inputs
        for node in self.nodes:
            yield from node.results


@dataclass(frozen=True)
class Annotation:
    """A user's sharding annotation of an input or output of the graph. If `open_dims[d]`, propagation may shard dim d
    further.

    The compiler satisfies a `required` annotation exactly, and may drop any other.
    """

    sharding: Sharding
    required: bool = True
    open_dims: tuple[bool, ...] = ()
    loc: Location | None = None


STAGES = ("import", "propagate", "materialize", "optimize", "partition", "fuse", "schedule")


@dataclass(eq=False)
class Module:
    """A program at one stage, on one mesh or several.

    At stage `import`, a program on several meshes lists them in `meshes`, and each sharding names its mesh. From
    `propagate` on, such a program is a module without nodes whose `parts` are one module per mesh. Parts communicate
    through pairs of `transfer_send` and `transfer_recv`. The outer module keeps the inputs and outputs of the program.

    Attributes:
        in_annotations, out_annotations: the annotation of each graph input / output, or None if it has no annotation.
        in_types, out_types, in_shardings, out_shardings: of the global inputs / outputs, set from `partition` on.
        kernels: the bodies that `kernel` nodes name, from `fuse` on.
        donations: donated input -> the output that reuses its buffer, or None if any fitting output may reuse it.
        result_paths: output -> its path in the pytree of results, if JAX's program text gives one.
        in_numbers, out_numbers: only in a part: the positions of its inputs / outputs in the entire program.
        reordered: mesh name -> device ids, for meshes whose declared device order is ignored (`ir/shared_devices.py`).
        nominal_sizes: the sizes that the compiler assumed for mesh axes of unknown size.
        chunks: decisions about splitting collectives into chunks, within `memory_cap` bytes of device memory.
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
    # "local": arguments are shards already; "global": each process slices its shard from the full arrays
    arguments: str = "local"
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
        mesh_text = " and ".join(f"@{mesh.name} {mesh}" for mesh in self.meshes) if self.meshes else str(self.mesh)
        return f"Module({self.name!r}, {mesh_text}, stage {self.stage!r}, {len(self.graph.nodes)} operations)"
