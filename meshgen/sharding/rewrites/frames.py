"""Find dims that are to be computed in the frame of a longer dim: those that slices cut unevenly out of a split dim.

Example: `%a = slice %x [1:1023]`, `%b = tanh %a` of f32[1024] on 8 devices. Tiles of the 1022 rows would begin one row later
than those of the 1024, so both dims get a frame: 1024 rows in tiles of 128, of which row r is row r - 1 of %a.

All dims after such a slice that are computed row by row form one class, with one frame. Where the class ends (rows are
concatenated with others, padded, written into a tensor, or summed over), masks select the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.op import Trait
from meshgen.ops.registry import rule_of, with_trait
from meshgen.sharding.rewrites.constant_places import window_start
from meshgen.sharding.rewrites.row_views import Frame

Dim = tuple[Value, int]
Parts = Callable[[Value, int], int]  # into how many parts a dim may be split
CARRIERS = with_trait(Trait.ELEMENTWISE) | {
    "broadcast_in_dim", "dot_general", "gather", "iota", "reduce", "reshape", "transpose",
}  # fmt: skip
ALONG_OTHERS = ("concatenate", "scatter")  # carry rows along dims that they neither join nor sum over


def cut_dims(node: Node) -> list[int]:
    """The dims of which a slice takes a part; none if it strides."""
    if node.op != "slice" or set(node.attrs.stride) - {1}:
        return []
    sizes = node.operands[0].type.sizes
    return [d for d, size in enumerate(sizes) if node.result.type.sizes[d] != size]


def frames_of(graph: Graph, parts: Parts) -> dict[Dim, Frame]:
    """The frame of each dim that has one."""
    if not any(node.op in ("slice", "concatenate") for node in graph.nodes):
        return {}
    finder = _Finder(graph)
    for node in graph.nodes:
        for dim in cut_dims(node):
            size, rows, count = node.operands[0].type.sizes[dim], node.result.type.sizes[dim], 0
            if 2 * rows > size:
                count = parts(node.operands[0], dim)
            if count > 1 and size % count == 0 and (node.result, dim) not in finder.frames:
                finder.enter(finder.explored((node.result, dim)), size)
    for node in graph.nodes:
        for (piece, dim), frame in joined_pieces(node, finder.frames):
            count = parts(node.result, dim)
            if count > 1 and frame.size % count == 0 and (piece, dim) not in finder.frames:
                found = finder.explored((piece, dim))
                if len(found.members) > 1:
                    finder.enter(found, frame.size, frame.at)
    return finder.frames


def joined_pieces(node: Node, frames: dict[Dim, Frame]) -> Iterator[tuple[Dim, Frame]]:
    """The operands of a concatenation and the position of their rows in the frame of its result."""
    if node.op != "concatenate":
        return
    dim = node.attrs.dim
    whole = frames.get((node.result, dim), Frame(node.result.type.sizes[dim]))
    start = whole.at
    for value in node.operands:
        yield (value, dim), Frame(whole.size, start)
        start += value.type.sizes[dim]


@dataclass
class _Class:
    """Dims with the same rows; the starts of slices that make some of them, and the sizes and positions that some are put into."""

    members: dict[Dim, None] = field(default_factory=dict[Dim, None])
    walks: int = 0  # ops that walk the rows one by one or sum over them
    starts: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # (size of the source, start)
    places: list[tuple[int, int]] = field(
        default_factory=list[tuple[int, int]]
    )  # (size of the tensor it becomes part of, start)


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self._producers = graph.index.producers
        self._uses: dict[Value, list[tuple[Node, int]]] = {}  # inputs of the graphs around a body included
        for node in graph.nodes:
            for number, value in enumerate(node.operands):
                self._uses.setdefault(value, []).append((node, number))
        self.frames: dict[Dim, Frame] = {}

    def enter(self, found: _Class, size: int, at: int | None = None) -> None:
        """Give all dims of a class a frame of `size` rows, if its slices are nearly as long."""
        starts = [start for source, start in found.starts if source == size]
        if at is None:
            places = [start for whole, start in found.places if whole == size]
            at = places[0] if places else _median(starts)
        shifts = [abs(start - at) for start in starts]
        if (
            found.walks + len(found.places)
            and starts
            and all(min(shift, size - shift) * DEFAULT.rewriting.near <= size for shift in shifts)
        ):
            self.frames |= dict.fromkeys(found.members, Frame(size, at))

    def explored(self, first: Dim) -> _Class:
        """All dims that walk the same rows as the first."""
        found, queue = _Class({first: None}), [first]
        for value, dim in queue:  # grows
            made = self._producers.get(value)
            for node in [*([made] if made else []), *(user for user, _ in self._uses.get(value, ()))]:
                for other in _tied(node, (value, dim)):
                    found.walks += 1
                    if other not in found.members:
                        found.members[other] = None
                        queue.append(other)
            if made and dim in cut_dims(made):
                found.starts.append((made.operands[0].type.sizes[dim], made.attrs.start[dim]))
            found.places += [
                place for user, number in self._uses.get(value, ()) for place in self._places(user, number, dim)
            ]
        return found

    def _places(self, user: Node, number: int, dim: int) -> Iterator[tuple[int, int]]:
        """The position at which a user puts the rows of its operand, and the number of rows of its result."""
        if user.op == "concatenate" and user.attrs.dim == dim:
            yield user.result.type.sizes[dim], sum(v.type.sizes[dim] for v in user.operands[:number])
        elif user.op == "pad" and number == 0:
            yield user.result.type.sizes[dim], user.attrs.low[dim]
        elif number and (start := window_start(user, self._producers)) is not None:
            yield user.result.type.sizes[dim], start[dim]


def walked(node: Node) -> list[tuple[Dim, int | None]]:
    """Every dim of an op's operands and results with the loop that walks it row by row or sums over it; None if the loop shares its dim."""
    if node.op not in (*CARRIERS, *ALONG_OTHERS, "slice", "pad") or node.option is not None:
        return []
    rule = rule_of(node)
    kinds = ("parallel", "reduce") if node.op in CARRIERS else ("parallel",)
    ends = [*zip(node.operands, rule.operands, strict=True), *zip(node.results, rule.results, strict=True)]
    shared = {loop for _, dims in ends for part in dims if len(part) > 1 for loop in part}

    def alone(part: tuple[int, ...]) -> int | None:
        is_alone = len(part) == 1 and part[0] not in shared and rule.factors[part[0]].kind in kinds
        return part[0] if is_alone else None

    return [((value, dim), alone(part)) for value, dims in ends for dim, part in enumerate(dims)]


def _tied(node: Node, dim: Dim) -> Iterator[Dim]:
    """Dims of a node with the same loop as one of its dims, and no other loop."""
    ends = walked(node)
    loops = {loop for end, loop in ends if end == dim and loop is not None}
    yield from (end for end, loop in ends if loop in loops)


def _median(starts: list[int]) -> int:
    from statistics import median_low  # few programs have frames, and its import takes longer than a small pass

    return median_low(starts)
