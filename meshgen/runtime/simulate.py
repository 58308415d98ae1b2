"""Execution of a partitioned program on all ranks in one process with NumPy, as a reference for compiled programs.

Ranks run in lock-step. An op that does not depend on the rank runs once for all ranks that hold the same array objects,
which does not change the results. Padding is filled with poison (NaN, or a bit pattern for integers), so that a program
that reads it gives a visibly wrong result.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from meshgen.ccl.mesh_transfers import Post
from meshgen.ccl.simulated import Mailbox, cut, run_collective
from meshgen.errors import ArgumentError, Diagnostic, RuntimeFailure
from meshgen.identity_dict import identities
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.group_calls import single_operand_calls
from meshgen.ir.loops import has_bounded_loops
from meshgen.ir.multi_mesh import parts_of
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
    """Return the tile `x` with `fill` in all rows whose global index is at least the attribute `size`."""
    dim, tile = node.attrs.dim, x.shape[node.attrs.dim]
    valid = max(node.attrs.size - mesh.index(rank, node.attrs.axes) * tile, 0)
    if valid >= tile:
        return x
    result = x.copy()
    index = [slice(None)] * x.ndim
    index[dim] = slice(valid, None)
    result[tuple(index)] = narrow(node.attrs.fill, node.result.type.dtype)
    return result


def rank_handlers(mesh: Mesh, rank: int) -> dict[str, Handler]:
    """Return the evaluators of the ops whose results depend on the rank, for one rank."""

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
    """Whether a graph, or a region in it, contains one of the ops in `ops`."""
    return any(node.op in ops or any(_mentions(r, ops) for r in node.regions) for node in graph.nodes)


def _branch(node: Node, choice: Array) -> int:
    """Return the index of the region that an `if` or `case` runs for the value of its first operand."""
    return int(not choice) if is_if(node) else case_branch(choice, len(node.regions))


# Lock-step ----------------------------------------------------------------------------------------------------


class Simulation:
    """A lock-step simulation of all ranks of a module at stage `partition` or `fuse`.

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
        """Run a graph to its end and return its outputs. An output is a list with the shard of each rank.

        Raises:
            RuntimeFailure: MG0604, the graph waits for another mesh.
        """
        return together([self.steps(graph, inputs, outer)], self._post)[0]

    def steps(
        self, graph: Graph, inputs: Sequence[Shards], outer: Mapping[Value, Shards] | None = None
    ) -> Generator[Node, None, list[Shards]]:
        """Return a generator that runs a graph and finally returns its outputs.

        It yields a `transfer_recv` node as long as another mesh has not sent the value.
        """
        values: dict[Value, Shards] = dict(outer or {})
        values.update(zip(graph.inputs, inputs, strict=True))
        last = last_uses(graph)
        for index, node in enumerate(graph.nodes):
            while is_transfer_recv(node) and not self._post.has(node.attrs.channel):
                yield node
            results = self._node(node, [values[v] for v in node.operands], values)
            values.update(zip(node.results, results, strict=True))
            for value in last.get(index, ()):
                values.pop(value, None)
        return [values[v] for v in graph.outputs]

    def _kernel(self, node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        """Run the body of a kernel on one rank and return its results."""
        return run(self.module.kernels[node.attrs.kernel], args)

    def _node(self, node: Node, operands: list[Shards], values: Mapping[Value, Shards]) -> list[Shards]:
        if is_transfer(node):
            return self._between(node, operands)
        if node.op in COLLECTIVES:
            pairs = zip(single_operand_calls(node), operands, strict=True)
            return [run_collective(call, self.mesh, shards, self._mailbox) for call, shards in pairs]
        if is_control(node) and any(_mentions(region, COLLECTIVES | AWAITED) for region in node.regions):
            return self._control(node, operands, values)
        return self._each_rank(node, operands, values)

    def _between(self, node: Node, operands: list[Shards]) -> list[Shards]:
        """Run one side of a transfer between meshes. The last result is the order token for the next transfer."""
        if is_transfer_send(node):
            return [self._post.send(node, operands[0], self.mesh.size)]
        return [self._post.receive(node, self.mesh), [np.zeros((), np.bool_)] * self.mesh.size]

    def _each_rank(self, node: Node, operands: list[Shards], values: Mapping[Value, Shards]) -> list[Shards]:
        """Run a node on every rank.

        If the node does not depend on the rank, ranks with identical operand objects share one run.
        """
        launches = is_kernel(node)
        is_shared = self._rank_free[node.attrs.kernel] if launches else node.op not in OF_RANKS and not node.regions
        results_by_key: dict[tuple[int, ...], list[Array]] = {}
        per_rank: list[list[Array]] = []
        operand_ids = [identities(shards) if is_shared else range(self.mesh.size) for shards in operands]
        for rank in range(self.mesh.size):
            args = [shards[rank] for shards in operands]
            key = tuple(ids[rank] for ids in operand_ids) if is_shared else (rank,)
            if key not in results_by_key:
                results_by_key[key] = self._on_rank(node, args, rank, values)
            per_rank.append(results_by_key[key])
        return [[results[i] for results in per_rank] for i in range(len(node.results))]

    def _on_rank(self, node: Node, args: list[Array], rank: int, values: Mapping[Value, Shards]) -> list[Array]:
        outer = {value: shards[rank] for value, shards in values.items()} if node.regions else None
        return self._evaluators[rank].node(node, args, outer)

    def _control(self, node: Node, operands: list[Shards], values: Mapping[Value, Shards]) -> list[Shards]:
        """Run control flow that contains collectives.

        All ranks must have equal trip counts. Each rank takes the results of its own branch.
        """
        if is_loop(node):
            condition, body = node.regions
            state = operands
            while self._agreed(node, self.run(condition, state, values)[0]):
                state = self.run(body, state, values)
            return state
        if is_scan(node):
            return self._scan(node, operands, values)
        branches = [_branch(node, choice) for choice in operands[0]]
        if len(set(branches)) > 1 and not all(
            map(has_bounded_loops, node.regions)
        ):  # Only the taken branches run, because a loop in another branch might not terminate.
            self._agreed(node, operands[0])
        branch_results = {
            branch: self.run(node.regions[branch], operands[1:], values) for branch in dict.fromkeys(branches)
        }
        return [
            [branch_results[branch][number][rank] for rank, branch in enumerate(branches)]
            for number in range(len(node.results))
        ]

    def _scan(self, node: Node, operands: list[Shards], values: Mapping[Value, Shards]) -> list[Shards]:
        (body,) = node.regions
        results = range(len(body.outputs))
        state = [[*map(np.array, shards)] if n in results else shards for n, shards in enumerate(operands)]
        for iteration in range(node.attrs.trips):
            rows = rows_at(node, iteration)
            arguments = [[a[rows[n]] for a in shards] if n in rows else shards for n, shards in enumerate(state)]
            for n, shards in enumerate(self.run(body, arguments, values)):
                if n not in rows:
                    state[n] = shards
                for rank, part in enumerate(shards if n in rows else ()):
                    state[n][rank][rows[n]] = part
        return [state[n] for n in results]

    def _agreed(self, node: Node, choices: Shards) -> int:
        values = [int(c) for c in choices]
        if any(c != values[0] for c in values):
            raise RuntimeFailure(
                Diagnostic(
                    "MG0604",
                    f"'{node.op}' holds collectives, but the ranks choose differently: {values}; they would deadlock",
                    node.loc,
                )
            )
        return values[0]


def together(programs: Sequence[Generator[Node, None, T]], post: Post) -> list[T]:
    """Run programs in turn, each until it waits for another program or ends, and return the result of each program.

    Raises:
        RuntimeFailure: MG0604, all remaining programs wait.
    """
    results: dict[int, T] = {}
    waiting: dict[int, Node | None] = dict.fromkeys(range(len(programs)))
    while waiting:
        has_progress = False
        for index, node in list(waiting.items()):
            if node is not None and not post.has(node.attrs.channel):
                continue
            has_progress = True
            try:
                waiting[index] = next(programs[index])
            except StopIteration as end:
                results[index] = end.value
                del waiting[index]
        if not has_progress:
            nodes = [node for node in waiting.values() if node is not None]
            text = ", ".join(f"transfer {node.attrs.channel} from @{node.attrs.peer.name}" for node in nodes)
            raise RuntimeFailure(Diagnostic("MG0604", f"{text} has no matching send", nodes[0].loc))
    return [results[index] for index in range(len(programs))]


def check_arguments(module: Module, args: Sequence[Array]) -> list[Array]:
    """Return the arguments as arrays.

    Raises ArgumentError MG0601, which lists all mismatches with the global signature.
    """
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
    """Run a module on global arguments, and return each output as the local buffers of all ranks of its mesh."""
    arrays, post = check_arguments(module, args), Post()
    programs = [
        Simulation(part, post).steps(part.graph, _input_shards(part, [arrays[i] for i in inputs]))
        for part, inputs, _ in parts_of(module)
    ]
    outputs: dict[int, Shards] = {}
    for (_, _, numbers), results in zip(parts_of(module), together(programs, post), strict=True):
        outputs.update(zip(numbers, results, strict=True))
    return [outputs[number] for number in range(len(outputs))]


def _input_shards(module: Module, arrays: Sequence[Array]) -> list[Shards]:
    if module.arguments == "global":
        return [[array] * module.mesh.size for array in arrays]
    return [shard_all(a, s, module.mesh) for a, s in zip(arrays, module.in_shardings, strict=True)]


def simulate(module: Module, args: Sequence[Array], *,
             tolerance: float | Sequence[float | Array] | None = 0.0) -> list[Array]:  # fmt: skip
    """Run a module at stage `partition` or `fuse` on global arguments, and return its global outputs.

    Args:
        tolerance: allowed difference between replicas of an output, as one number or one entry per output. None allows
            any difference.
    Raises:
        ArgumentError: MG0601, the arguments do not match.
        NumbersDiffer: MG0605, replicas differ.
        RuntimeFailure: MG0604, ranks would deadlock.
    """
    assert module.stage in ("partition", "fuse"), f"stage '{module.stage}' has no local program yet"
    outputs = simulate_shards(module, args)
    assembled: dict[int, Array] = {}
    for part, _, numbers in parts_of(module):
        for number, type_, sharding in zip(numbers, part.out_types, part.out_shardings, strict=True):
            allowed = tolerance[number] if isinstance(tolerance, Sequence) else tolerance
            name = f"output {number}"
            assembled[number] = assemble(
                outputs[number], sharding, type_.sizes, part.mesh, tolerance=allowed, name=name
            )
    return [assembled[number] for number in range(len(assembled))]


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
