"""Runs a plan on all ranks in one process, on NumPy: the check that schedule and buffer plan are right.

Every rank has an arena of bytes in which buffers lie where the plan puts them, poisoned at the start (NaN in
any float type), so a plan that overwrites what is still needed gives wrong numbers here too.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from meshgen.ccl.between import BETWEEN, Post
from meshgen.ccl.simulated import Mailbox, run_collective
from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.ir.graph import Node, Value
from meshgen.runtime.host_memory import free_bytes
from meshgen.runtime.launch import POISON, Launch
from meshgen.runtime.manifest import Manifest
from meshgen.runtime.plan import Buffer, Item
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
    arenas = _arenas(plan.arena_bytes, mesh.size)
    for rank, arena in enumerate(arenas):
        for number, value in constants.items():
            view(arena, plan.buffers[number])[...] = value
        for binding, value in zip(manifest.inputs, args, strict=True):
            local = value if manifest.arguments == "global" else shard_array(value, binding.sharding, mesh, rank)
            view(arena, plan.buffers[binding.buffer])[...] = local
    mailbox = Mailbox()
    for number in order if order is not None else range(len(plan.items)):
        item = plan.items[number]
        while item.op == "transfer_recv" and not post.has(item.attrs["channel"]):
            yield _node(manifest, item)
        _run_item(manifest, item, arenas, launch, mailbox, post)
    return [
        assemble([view(a, plan.buffers[b.buffer]).copy() for a in arenas], b.sharding, b.type.sizes, mesh)
        for b in manifest.outputs
    ]


def _arenas(nbytes: int, count: int) -> list[Array]:
    free = free_bytes()
    if free is not None and count * nbytes > free:  # asked before: systems promise memory that they do not have
        raise RuntimeFailure(
            Diagnostic(
                "MG0604",
                f"{count} ranks with {nbytes} bytes each do not fit into this machine's memory: {free} bytes are free",
            )
        )
    return [np.full(nbytes, POISON, np.uint8) for _ in range(count)]


def view(arena: Array, buffer: Buffer) -> Array:
    """The buffer's bytes as an array of its type."""
    return arena[buffer.offset : buffer.end].view(buffer.type.numpy_dtype).reshape(buffer.type.sizes)


def _run_item(manifest: Manifest, item: Item, arenas: Sequence[Array], launch: Launch, mailbox: Mailbox, post: Post
              ) -> None:  # fmt: skip
    """One launch on every rank. All operands are read before anything is written: ranks run in lock-step."""
    buffers = manifest.plan.buffers
    operands = [[view(arena, buffers[n]) for n in item.inputs] for arena in arenas]
    types = [buffers[n].type for n in item.outputs]
    if item.op in BETWEEN:
        results = _run_transfer(manifest, item, operands, post)
    elif item.is_collective:
        results = _run_collective(manifest, item, operands, mailbox)
    else:
        results = [launch(item.kernel, rank, local, types) for rank, local in enumerate(operands)]
    for arena, local in zip(arenas, results, strict=True):
        for number, value in zip(item.outputs, local, strict=True):
            view(arena, buffers[number])[...] = value


def _run_collective(manifest: Manifest, item: Item, operands: Sequence[Sequence[Array]], mailbox: Mailbox
                    ) -> list[list[Array]]:  # fmt: skip
    """Results per rank. Operands are copied, because results may share memory with them."""
    node = _node(manifest, item)
    shards = run_collective(node, manifest.mesh, [local[0].copy() for local in operands], mailbox)
    return [[shard] if item.outputs else [] for shard in shards]


def _run_transfer(manifest: Manifest, item: Item, operands: Sequence[Sequence[Array]], post: Post) -> list[list[Array]]:
    """What a transfer gives on every rank: the value, where it receives, and the turn of the next."""
    node, turn = _node(manifest, item), np.zeros((), np.bool_)
    if item.op == "transfer_send":
        return [[each] for each in post.send(node, [local[0] for local in operands], manifest.mesh.size)]
    return [[shard, turn] for shard in post.receive(node, manifest.mesh)]


def _node(manifest: Manifest, item: Item) -> Node:
    """A collective as the node that it was made from."""
    buffers = manifest.plan.buffers
    inputs, outputs = ([Value(buffers[n].type) for n in numbers] for numbers in (item.inputs, item.outputs))
    return Node(item.op, inputs, outputs, dict(item.attrs))
