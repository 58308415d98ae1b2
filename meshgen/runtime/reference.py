"""Runs a plan on all ranks in one process, on NumPy: the check that schedule and buffer plan are right.

Every rank has an arena of bytes in which buffers lie where the plan puts them, poisoned at the start (NaN in
any float type), so a plan that overwrites what is still needed gives wrong numbers here too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.ccl.between import BETWEEN, Post
from meshgen.ccl.simulated import Mailbox, run_collective
from meshgen.errors import Diagnostic, RuntimeFailure, bracketed
from meshgen.ir.evaluate.control import case_branch
from meshgen.ir.graph import Node, Value
from meshgen.runtime.launch import POISON, Launch
from meshgen.runtime.manifest import Manifest
from meshgen.runtime.plan import CONTROL, Item, Schedule
from meshgen.runtime.simulate import assemble, shard_array, together

Array = np.ndarray[Any, Any]


def run_plan(manifest: Manifest, constants: Mapping[int, Array], args: Sequence[Array], launch: Launch,
             order: Sequence[int] | None = None) -> list[Array]:  # fmt: skip
    """Global outputs for global arguments.

    Args:
        constants: value of each constant buffer.
        launch: runs a kernel on one rank.
        order: item numbers in an order that streams and events allow; default: issue order.
    Raises:
        RuntimeFailure: MG0604, the arenas do not fit into memory.
    """
    post = Post()
    return together([plan_steps(manifest, constants, args, launch, post, order)], post)[0]


def plan_steps(manifest: Manifest, constants: Mapping[int, Array], args: Sequence[Array], launch: Launch, post: Post,
               order: Sequence[int] | None = None) -> Generator[Node, None, list[Array]]:  # fmt: skip
    """The same step by step, for `together`: yields a transfer that waits for the post of another mesh."""
    plan, mesh = manifest.plan, manifest.mesh
    ranks = _Ranks(manifest, launch, post)
    frame = Frame(plan, range(mesh.size), [np.full(plan.arena_bytes, POISON, np.uint8) for _ in range(mesh.size)], {})
    for rank in range(mesh.size):
        for number, value in constants.items():
            frame.view(rank, number)[...] = value
        for binding, value in zip(manifest.inputs, args, strict=True):
            local = value if manifest.arguments == "global" else shard_array(value, binding.sharding, mesh, rank)
            frame.view(rank, binding.buffer)[...] = local
    for number in order if order is not None else range(len(plan.items)):
        item = plan.items[number]
        while item.op == "transfer_recv" and not post.has(item.attrs["channel"]):
            yield _node(frame, item)
        ranks.run(frame, item)
    return [
        assemble([frame.view(rank, b.buffer).copy() for rank in range(mesh.size)], b.sharding, b.type.sizes, mesh)
        for b in manifest.outputs
    ]


@dataclass(frozen=True)
class Frame:
    """A step, or one of a region, on some ranks: an arena and the arrays of what is given (by buffer) for each of them."""

    plan: Schedule
    ranks: Sequence[int]
    arenas: Sequence[Array]
    given: Mapping[int, Sequence[Array]]

    def view(self, place: int, number: int) -> Array:
        """The bytes of a buffer on the rank `ranks[place]` as an array of its type."""
        buffer = self.plan.buffers[number]
        if buffer.kind == "given":
            return self.given[buffer.storage][place].reshape(buffer.type.sizes)
        bytes_ = self.arenas[place][buffer.offset : buffer.end]
        return bytes_.view(buffer.type.numpy_dtype).reshape(buffer.type.sizes)

    def views(self, number: int) -> list[Array]:
        """A buffer on each of the ranks."""
        return [self.view(place, number) for place in range(len(self.ranks))]

    def alone(self) -> Iterator[Frame]:
        """The same step on each rank by itself."""
        for place, rank in enumerate(self.ranks):
            given = {number: [arrays[place]] for number, arrays in self.given.items()}
            yield Frame(self.plan, [rank], [self.arenas[place]], given)


class _Ranks:
    """Ranks in lock-step. All operands of an item are read before anything is written."""

    def __init__(self, manifest: Manifest, launch: Launch, post: Post) -> None:
        self._mesh, self._launch, self._post = manifest.mesh, launch, post
        self._mailbox = Mailbox()

    def run(self, frame: Frame, item: Item) -> None:
        """One launch on the ranks of the frame; where nothing is exchanged each goes its own way through control flow."""
        if item.op in CONTROL and not item.communicates and len(frame.ranks) > 1:
            for each in frame.alone():
                self.run(each, item)
        elif item.op == "while":
            self._loop(frame, item)
        elif item.op in CONTROL:
            self._branch(frame, item)
        else:
            self._write(frame, item.outputs, self._results(frame, item))

    def _results(self, frame: Frame, item: Item) -> Sequence[Sequence[Array]]:
        """What a kernel or collective gives, per rank."""
        operands = [[frame.view(place, n) for n in item.inputs] for place in range(len(frame.ranks))]
        if item.op in BETWEEN:
            return self._transfer(frame, item, operands)
        if item.is_collective:  # operands are copied, because results may share memory with them
            shards = run_collective(_node(frame, item), self._mesh, [o[0].copy() for o in operands], self._mailbox)
            return [[shard] if item.outputs else [] for shard in shards]
        types = [frame.plan.buffers[n].type for n in item.outputs]
        return [
            self._launch(item.kernel, rank, local, types) for rank, local in zip(frame.ranks, operands, strict=True)
        ]

    def _transfer(self, frame: Frame, item: Item, operands: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """What a transfer gives on every rank: the value, where it receives, and the turn of the next."""
        node, turn = _node(frame, item), np.zeros((), np.bool_)
        if item.op == "transfer_send":
            return [[each] for each in self._post.send(node, [local[0] for local in operands], self._mesh.size)]
        return [[shard, turn] for shard in self._post.receive(node, self._mesh)]

    def _write(self, frame: Frame, outputs: Sequence[int], results: Sequence[Sequence[Array]]) -> None:
        for place, local in enumerate(results):
            for number, value in zip(outputs, local, strict=True):
                frame.view(place, number)[...] = value

    def _loop(self, frame: Frame, item: Item) -> None:
        """The results hold what is carried; what stays the same is handed over where it lies."""
        count = len(item.outputs)
        condition, body = item.regions
        self._write(frame, item.outputs, self._copies(frame, item.inputs[:count]))
        given = [frame.views(n) for n in (*item.outputs, *item.inputs[count:])]
        while self._agreed(item, [int(results[0]) for results in self._region(frame, item, condition, given)]):
            self._write(frame, item.outputs, self._region(frame, item, body, given))

    def _branch(self, frame: Frame, item: Item) -> None:
        choice = self._agreed(item, [int(array) for array in frame.views(item.inputs[0])])
        number = (0 if choice else 1) if item.op == "if" else case_branch(np.array(choice), len(item.regions))
        given = [frame.views(n) for n in item.inputs[1:]]
        self._write(frame, item.outputs, self._region(frame, item, item.regions[number], given))

    def _copies(self, frame: Frame, numbers: Sequence[int]) -> list[list[Array]]:
        return [[frame.view(place, n).copy() for n in numbers] for place in range(len(frame.ranks))]

    def _region(self, frame: Frame, item: Item, plan: Schedule, given: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """What a region gives, per rank, copied out of its arena."""
        arenas = [np.empty(0, np.uint8)] * len(frame.ranks) if item.scratch is None else frame.views(item.scratch)
        inner = Frame(plan, frame.ranks, arenas, dict(zip(plan.inputs, given, strict=True)))
        for each in arenas:
            each[...] = POISON
        for step in plan.items:
            self.run(inner, step)
        return self._copies(inner, plan.outputs)

    def _agreed(self, item: Item, choices: Sequence[int]) -> int:
        """The choice of all ranks. Raises RuntimeFailure MG0604 where they differ: they would wait for ever."""
        if len(set(choices)) > 1:
            text = (
                f"'{item.op}' holds collectives, but the ranks choose differently: {list(choices)}; they would deadlock"
            )
            raise RuntimeFailure(Diagnostic("MG0604", text + bracketed(item.source)))
        return choices[0]


def _node(frame: Frame, item: Item) -> Node:
    """A collective as the node that it was made from."""
    buffers = frame.plan.buffers
    inputs, outputs = ([Value(buffers[n].type) for n in numbers] for numbers in (item.inputs, item.outputs))
    return Node(item.op, inputs, outputs, dict(item.attrs))
