"""Run a partitioned program on all ranks at once, in one process, with NumPy: the oracle of law 1.

Ranks go in lock-step. Work is shared between ranks only where they hold the very same array objects and the op
does not depend on the rank, so sharing changes nothing. Padding is poison (NaN, or a bit pattern for integers):
a program that reads it gives a detectably wrong result.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from meshgen.ccl.between import Post
from meshgen.ccl.simulated import Mailbox, cut, run_collective
from meshgen.errors import ArgumentError, Diagnostic, RuntimeFailure
from meshgen.identity_dict import identities
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.group_calls import calls_of
from meshgen.ir.loops import always_ends
from meshgen.ir.parts import parts_of
from meshgen.ir.predicates import (
    is_control,
    is_if,
    is_kernel,
    is_loop,
    is_scan,
    is_transfer,
    is_transfer_recv,
    is_transfer_send,
)
from meshgen.mesh import Mesh
from meshgen.ops.classes import AWAITED, COLLECTIVES, OF_RANKS
from meshgen.ops.evaluate.common import Array, Handler, RunRegion, narrow, neutral
from meshgen.ops.evaluate.control import case_branch, rows_at
from meshgen.ops.evaluate.evaluator import Evaluator, last_uses
from meshgen.runtime.shards import Shards, assemble, shard_all, shard_array

T = TypeVar("T")


# Rank-dependent ops --------------------------------------------------------------------------------


def mask_padding(node: Node, x: Array, mesh: Mesh, rank: int) -> Array:
    """Rows whose global index is at or past `size` become `fill`."""
    dim, tile = node.attrs.dim, x.shape[node.attrs.dim]
    valid = max(node.attrs.size - mesh.index(rank, node.attrs.axes) * tile, 0)
    if valid >= tile:
        return x
    result = x.copy()
    place = [slice(None)] * x.ndim
    place[dim] = slice(valid, None)
    result[tuple(place)] = narrow(node.attrs.fill, node.result.type.dtype)
    return result


def rank_handlers(mesh: Mesh, rank: int) -> dict[str, Handler]:
    """Evaluators of the rank-dependent ops for one rank."""

    def index(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        return [np.array(mesh.index(rank, node.attrs.axes), np.int32)]

    def mask(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        return [mask_padding(node, args[0], mesh, rank)]

    def tile(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        dim = node.attrs.dim
        size = node.result.type.sizes[dim]
        start = mesh.index(rank, node.attrs.axes) * size
        return [cut(args[0], dim, start, start + size)]

    def partial(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        if mesh.index(rank, node.attrs.axes) == 0:
            return [args[0]]
        return [np.broadcast_to(neutral(node.attrs.kind, node.result.type.dtype), args[0].shape)]

    return {"process_index": index, "mask_padding": mask, "all_slice": tile, "to_partial": partial}


def _mentions(graph: Graph, ops: Collection[str]) -> bool:
    """Whether a graph or a region in it has one of the ops."""
    return any(node.op in ops or any(_mentions(r, ops) for r in node.regions) for node in graph.nodes)


def _branch(node: Node, choice: Array) -> int:
    """The region that an `if` or `case` takes."""
    return int(not choice) if is_if(node) else case_branch(choice, len(node.regions))


# Lock-step ----------------------------------------------------------------------------------------------------


class Simulation:
    """All ranks of a module at stage `partition` or `fuse`, in lock-step.

    `post` carries values between the modules of a program on several meshes.
    """

    def __init__(self, module: Module, post: Post | None = None) -> None:
        self.module = module
        self._post = post or Post()
        self.mesh = module.mesh
        self._mailbox = Mailbox()
        self._evaluators = [
            Evaluator({**rank_handlers(self.mesh, rank), "kernel": self._kernel}) for rank in range(self.mesh.size)
        ]
        self._rank_free = {name: not _mentions(body, OF_RANKS) for name, body in module.kernels.items()}

    def run(self, graph: Graph, inputs: Sequence[Shards], outer: Mapping[Value, Shards] | None = None) -> list[Shards]:
        """Outputs of a graph, per output the shards of all ranks. Raises RuntimeFailure if it waits for another mesh."""
        return together([self.steps(graph, inputs, outer)], self._post)[0]

    def steps(
        self, graph: Graph, inputs: Sequence[Shards], outer: Mapping[Value, Shards] | None = None
    ) -> Generator[Node, None, list[Shards]]:
        """The same step by step: yields a node that waits for another mesh, and tries again when it is resumed."""
        values: dict[Value, Shards] = dict(outer or {})
        values.update(zip(graph.inputs, inputs, strict=True))
        last = last_uses(graph)
        for number, node in enumerate(graph.nodes):
            while is_transfer_recv(node) and not self._post.has(node.attrs.channel):
                yield node
            results = self._node(node, [values[v] for v in node.operands], values)
            values.update(zip(node.results, results, strict=True))
            for value in last.get(number, ()):
                values.pop(value, None)
        return [values[v] for v in graph.outputs]

    def _kernel(self, node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        """A launch on one rank: the results of the kernel's body."""
        return run(self.module.kernels[node.attrs.kernel], args)

    def _node(self, node: Node, operands: list[Shards], values: Mapping[Value, Shards]) -> list[Shards]:
        if is_transfer(node):
            return self._between(node, operands)
        if node.op in COLLECTIVES:
            pairs = zip(calls_of(node), operands, strict=True)
            return [run_collective(call, self.mesh, shards, self._mailbox) for call, shards in pairs]
        if is_control(node) and any(_mentions(region, COLLECTIVES | AWAITED) for region in node.regions):
            return self._control(node, operands, values)
        return self._each_rank(node, operands, values)

    def _between(self, node: Node, operands: list[Shards]) -> list[Shards]:
        """Send a value to another mesh, or receive one; the last result is the order token of the next transfer."""
        if is_transfer_send(node):
            return [self._post.send(node, operands[0], self.mesh.size)]
        return [self._post.receive(node, self.mesh), [np.zeros((), np.bool_)] * self.mesh.size]

    def _each_rank(self, node: Node, operands: list[Shards], values: Mapping[Value, Shards]) -> list[Shards]:
        """Run on every rank; once for ranks with identical operand objects if the op does not depend on the rank."""
        launches = is_kernel(node)
        share = self._rank_free[node.attrs.kernel] if launches else node.op not in OF_RANKS and not node.regions
        made: dict[tuple[int, ...], list[Array]] = {}
        per_rank: list[list[Array]] = []
        numbers = [identities(shards) if share else range(self.mesh.size) for shards in operands]
        for rank in range(self.mesh.size):
            args = [shards[rank] for shards in operands]
            key = tuple(each[rank] for each in numbers) if share else (rank,)
            if key not in made:
                made[key] = self._on_rank(node, args, rank, values)
            per_rank.append(made[key])
        return [[results[i] for results in per_rank] for i in range(len(node.results))]

    def _on_rank(self, node: Node, args: list[Array], rank: int, values: Mapping[Value, Shards]) -> list[Array]:
        outer = {value: shards[rank] for value, shards in values.items()} if node.regions else None
        return self._evaluators[rank].node(node, args, outer)

    def _control(self, node: Node, operands: list[Shards], values: Mapping[Value, Shards]) -> list[Shards]:
        """Control flow around collectives: loops have equal trip counts on all ranks; each rank takes the results of its own branch."""
        if is_loop(node):
            condition, body = node.regions
            state = operands
            while self._agreed(node, self.run(condition, state, values)[0]):
                state = self.run(body, state, values)
            return state
        if is_scan(node):
            return self._scan(node, operands, values)
        taken = [_branch(node, choice) for choice in operands[0]]
        if len(set(taken)) > 1 and not all(
            map(always_ends, node.regions)
        ):  # a loop in a branch that is not taken might not end
            self._agreed(node, operands[0])
        ways = {branch: self.run(node.regions[branch], operands[1:], values) for branch in dict.fromkeys(taken)}
        return [
            [ways[branch][number][rank] for rank, branch in enumerate(taken)] for number in range(len(node.results))
        ]

    def _scan(self, node: Node, operands: list[Shards], values: Mapping[Value, Shards]) -> list[Shards]:
        (body,) = node.regions
        results = range(len(body.outputs))
        state = [[*map(np.array, shards)] if n in results else shards for n, shards in enumerate(operands)]
        for trip in range(node.attrs.trips):
            rows = rows_at(node, trip)
            given = [[a[rows[n]] for a in shards] if n in rows else shards for n, shards in enumerate(state)]
            for n, shards in enumerate(self.run(body, given, values)):
                if n not in rows:
                    state[n] = shards
                for rank, part in enumerate(shards if n in rows else ()):
                    state[n][rank][rows[n]] = part
        return [state[n] for n in results]

    def _agreed(self, node: Node, choices: Shards) -> int:
        found = [int(c) for c in choices]
        if any(c != found[0] for c in found):
            raise RuntimeFailure(
                Diagnostic(
                    "MG0604",
                    f"'{node.op}' holds collectives, but the ranks choose differently: {found}; they would deadlock",
                    node.loc,
                )
            )
        return found[0]


def together(programs: Sequence[Generator[Node, None, T]], post: Post) -> list[T]:
    """Run programs in turn until each waits or ends. Raises RuntimeFailure MG0604 when all remaining ones wait."""
    results: dict[int, T] = {}
    waiting: dict[int, Node | None] = dict.fromkeys(range(len(programs)))
    while waiting:
        moved = False
        for number, node in list(waiting.items()):
            if node is not None and not post.has(node.attrs.channel):
                continue
            moved = True
            try:
                waiting[number] = next(programs[number])
            except StopIteration as end:
                results[number] = end.value
                del waiting[number]
        if not moved:
            nodes = [node for node in waiting.values() if node is not None]
            text = ", ".join(f"transfer {node.attrs.channel} from @{node.attrs.peer.name}" for node in nodes)
            raise RuntimeFailure(Diagnostic("MG0604", f"{text} has no matching send", nodes[0].loc))
    return [results[number] for number in range(len(programs))]


def check_arguments(module: Module, args: Sequence[Array]) -> list[Array]:
    """The arguments as arrays. Raises ArgumentError MG0601 with all that do not fit the global signature."""
    arrays = [np.asarray(a) for a in args]
    types = module.in_types
    faults: list[Diagnostic] = []
    if len(arrays) != len(types):
        faults.append(Diagnostic("MG0601", f"got {len(arrays)} arguments, but '{module.name}' takes {len(types)}"))
    for number, (array, type_) in enumerate(zip(arrays, types, strict=False)):
        if array.shape != type_.shape or array.dtype != type_.numpy_dtype:
            text = f"{array.dtype}{list(array.shape)}"
            faults.append(Diagnostic("MG0601", f"argument {number} is {text}, but '{module.name}' takes {type_}"))
    if faults:
        raise ArgumentError(*faults)
    return arrays


def simulate_shards(module: Module, args: Sequence[Array]) -> list[Shards]:
    """Per output the local buffers of all ranks (those of its mesh), from global arguments."""
    arrays, post = check_arguments(module, args), Post()
    programs = [
        Simulation(part, post).steps(part.graph, _given(part, [arrays[i] for i in inputs]))
        for part, inputs, _ in parts_of(module)
    ]
    found: dict[int, Shards] = {}
    for (_, _, numbers), results in zip(parts_of(module), together(programs, post), strict=True):
        found.update(zip(numbers, results, strict=True))
    return [found[number] for number in range(len(found))]


def _given(module: Module, arrays: Sequence[Array]) -> list[Shards]:
    if module.arguments == "global":
        return [[array] * module.mesh.size for array in arrays]
    return [shard_all(a, s, module.mesh) for a, s in zip(arrays, module.in_shardings, strict=True)]


def simulate(module: Module, args: Sequence[Array], *,
             tolerance: float | Sequence[float | Array] | None = 0.0) -> list[Array]:  # fmt: skip
    """Global outputs of a module at stage `partition` or `fuse`, from global arguments.

    Args:
        tolerance: how much replicas of an output may differ: a number, one entry per output, or None (any).
    Raises:
        ArgumentError: the arguments do not fit.  NumbersDiffer: replicas differ.
        RuntimeFailure: ranks would deadlock.
    """
    assert module.stage in ("partition", "fuse"), f"stage '{module.stage}' has no local program yet"
    outputs = simulate_shards(module, args)
    found: dict[int, Array] = {}
    for part, _, numbers in parts_of(module):
        for number, type_, sharding in zip(numbers, part.out_types, part.out_shardings, strict=True):
            allowed = tolerance[number] if isinstance(tolerance, Sequence) else tolerance
            name = f"output {number}"
            found[number] = assemble(outputs[number], sharding, type_.sizes, part.mesh, tolerance=allowed, name=name)
    return [found[number] for number in range(len(found))]


__all__ = [
    "Simulation",
    "assemble",
    "mask_padding",
    "rank_handlers",
    "shard_all",
    "shard_array",
    "simulate",
    "simulate_shards",
]
