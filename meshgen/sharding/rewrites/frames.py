"""Find dims to compute in the frame of a longer dim. A frame is the longer dim whose tiles a shorter dim uses.

Example: `%a = slice %x [1:1023]`, `%b = tanh %a` of f32[1024] on 8 devices. Tiles of the 1022 rows of `%a` would begin
one row later than tiles of the 1024 rows of `%x`. So `%a` and `%b` get a frame: 1024 rows in tiles of 128, in which row
r is row r - 1 of `%a`.

All dims that hold the rows of such a slice, through ops that are computed row by row, form one class with one frame.
Where the class ends (rows are concatenated with others, padded, written into a tensor, or reduced), masks select the
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.op import Trait
from meshgen.ops.registry import rule_of, with_trait
from meshgen.sharding.rewrites.constant_positions import window_start
from meshgen.sharding.rewrites.row_views import Frame

Dim = tuple[Value, int]
# function from (value, dim) to the number of shards into which the dim may be split
Parts = Callable[[Value, int], int]
CARRIERS = with_trait(Trait.ELEMENTWISE) | {
    "broadcast_in_dim", "dot_general", "gather", "iota", "reduce", "reshape", "transpose",
}  # fmt: skip
CARRIERS_ALONG_OTHER_DIMS = (
    "concatenate",
    "scatter",
)  # ops that carry rows along the dims that they neither join nor reduce


def cut_dims(node: Node) -> list[int]:
    """Return the dims of which a slice takes a part, or an empty list if the slice has strides."""
    if node.op != "slice" or set(node.attrs.stride) - {1}:
        return []
    sizes = node.operands[0].type.sizes
    return [d for d, size in enumerate(sizes) if node.result.type.sizes[d] != size]


def frames_of(graph: Graph, parts: Parts) -> dict[Dim, Frame]:
    """Return the frame of each dim that must be computed as part of a longer dim."""
    if not any(node.op in ("slice", "concatenate") for node in graph.nodes):
        return {}
    finder = _Finder(graph)
    for node in graph.nodes:
        for dim in cut_dims(node):
            size, rows, count = node.operands[0].type.sizes[dim], node.result.type.sizes[dim], 0
            if 2 * rows > size:
                count = parts(node.operands[0], dim)
            if count > 1 and size % count == 0 and (node.result, dim) not in finder.frames:
                finder.enter(finder.class_of((node.result, dim)), size)
    for node in graph.nodes:
        for (piece, dim), frame in joined_pieces(node, finder.frames):
            count = parts(node.result, dim)
            if count > 1 and frame.size % count == 0 and (piece, dim) not in finder.frames:
                dim_class = finder.class_of((piece, dim))
                if len(dim_class.members) > 1:
                    finder.enter(dim_class, frame.size, frame.at)
    return finder.frames


def joined_pieces(node: Node, frames: dict[Dim, Frame]) -> Iterator[tuple[Dim, Frame]]:
    """Yield the operands of a concatenation, each with the position of its rows in the frame of the result."""
    if node.op != "concatenate":
        return
    dim = node.attrs.dim
    result_frame = frames.get((node.result, dim), Frame(node.result.type.sizes[dim]))
    start = result_frame.at
    for value in node.operands:
        yield (value, dim), Frame(result_frame.size, start)
        start += value.type.sizes[dim]


@dataclass
class _DimClass:
    """Dims that hold the same rows.

    Attributes:
        members: the dims, in order of discovery.
        starts: the slices that define some of the dims, as (size of the sliced dim, first row).
        places: the tensors that the rows become part of, as (size of the tensor's dim, first row).
    """

    members: dict[Dim, None] = field(default_factory=dict[Dim, None])
    row_ops: int = 0  # number of ops that process the rows one by one or reduce them
    starts: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # (size of the sliced dim, start)
    places: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self._producers = graph.index.producers
        self._uses: dict[Value, list[tuple[Node, int]]] = {}  # also has the inputs of the graphs around a body
        for node in graph.nodes:
            for number, value in enumerate(node.operands):
                self._uses.setdefault(value, []).append((node, number))
        self.frames: dict[Dim, Frame] = {}

    def enter(self, dim_class: _DimClass, size: int, at: int | None = None) -> None:
        """Give all dims of a class a frame of `size` rows, if the class has slices of a dim of that size that shift few
        rows.
        """
        starts = [start for source, start in dim_class.starts if source == size]
        if at is None:
            starts_in_result = [start for result_size, start in dim_class.places if result_size == size]
            at = starts_in_result[0] if starts_in_result else _median(starts)
        shifts = [abs(start - at) for start in starts]
        if (
            dim_class.row_ops + len(dim_class.places)
            and starts
            and all(min(shift, size - shift) * DEFAULT.rewriting.near <= size for shift in shifts)
        ):
            self.frames |= dict.fromkeys(dim_class.members, Frame(size, at))

    def class_of(self, first: Dim) -> _DimClass:
        """Return the class of all dims that hold the same rows as the dim `first`."""
        dim_class, queue = _DimClass({first: None}), [first]
        for value, dim in queue:  # the loop appends to the queue
            producer = self._producers.get(value)
            for node in [*([producer] if producer else []), *(user for user, _ in self._uses.get(value, ()))]:
                for other in _dims_with_same_loop(node, (value, dim)):
                    dim_class.row_ops += 1
                    if other not in dim_class.members:
                        dim_class.members[other] = None
                        queue.append(other)
            if producer and dim in cut_dims(producer):
                dim_class.starts.append((producer.operands[0].type.sizes[dim], producer.attrs.start[dim]))
            dim_class.places += [
                position for user, number in self._uses.get(value, ()) for position in self._places(user, number, dim)
            ]
        return dim_class

    def _places(self, user: Node, number: int, dim: int) -> Iterator[tuple[int, int]]:
        """Yield the size of the result's dim, and the row of the result at which `user` puts the rows of operand
        `number`.
        """
        if user.op == "concatenate" and user.attrs.dim == dim:
            yield user.result.type.sizes[dim], sum(v.type.sizes[dim] for v in user.operands[:number])
        elif user.op == "pad" and number == 0:
            yield user.result.type.sizes[dim], user.attrs.low[dim]
        elif number and (start := window_start(user, self._producers)) is not None:
            yield user.result.type.sizes[dim], start[dim]


def row_loops(node: Node) -> list[tuple[Dim, int | None]]:
    """Return each dim of an op's operands and results, with the loop that goes over its rows or reduces them.

    The loop is None if the dim consists of several loops, or if another dim consists of this loop and others.
    """
    if node.op not in (*CARRIERS, *CARRIERS_ALONG_OTHER_DIMS, "slice", "pad") or node.option is not None:
        return []
    rule = rule_of(node)
    kinds = ("parallel", "reduce") if node.op in CARRIERS else ("parallel",)
    ends = [*zip(node.operands, rule.operands, strict=True), *zip(node.results, rule.results, strict=True)]
    shared = {loop for _, dims in ends for part in dims if len(part) > 1 for loop in part}

    def alone(part: tuple[int, ...]) -> int | None:
        is_separate = len(part) == 1 and part[0] not in shared and rule.factors[part[0]].kind in kinds
        return part[0] if is_separate else None

    return [((value, dim), alone(part)) for value, dims in ends for dim, part in enumerate(dims)]


def _dims_with_same_loop(node: Node, dim: Dim) -> Iterator[Dim]:
    """Yield the dims of a node that the same single loop goes over as `dim`."""
    ends = row_loops(node)
    loops = {loop for end, loop in ends if end == dim and loop is not None}
    yield from (end for end, loop in ends if loop in loops)


def _median(starts: list[int]) -> int:
    from statistics import median_low  # Few programs have frames, and this import takes longer than a small pass.

    return median_low(starts)
