"""Execution of a plan on all ranks in one process with NumPy. It tests schedule, buffers and lowered collectives.

Each rank has an arena of bytes, in which buffers have the offsets of the plan. A plan that overwrites a live buffer
therefore gives wrong results here too. The arena is first filled with poison, which is NaN in any float type.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from meshgen.ccl.local_transport import Pending, communicate
from meshgen.ccl.mesh_transfers import Post
from meshgen.ir.graph import Node, Value
from meshgen.ir.predicates import is_transfer, is_transfer_recv, is_transfer_send
from meshgen.mesh import Mesh
from meshgen.runtime.control_flow import require_equal_choices
from meshgen.runtime.execute import Choice, Frame, Rank, Request
from meshgen.runtime.launch import Launch
from meshgen.runtime.module_file.manifest import Manifest
from meshgen.runtime.plan import Item, Schedule
from meshgen.runtime.processes.ranks import assembled
from meshgen.runtime.simulate import shard_array, together

Array = np.ndarray[Any, Any]


def run_plan(manifest: Manifest, constants: Mapping[int, Array], args: Sequence[Array], launch: Launch,
             order: Sequence[int] | None = None) -> list[Array]:  # fmt: skip
    """Return the global outputs for global arguments.

    Args:
        constants: buffer number -> value.
        launch: runs a kernel on one rank.
        order: item numbers in an order that streams and events permit; default: issue order.
    Raises:
        RuntimeFailure: MG0604, the arenas do not fit into memory.
    """
    post = Post()
    return together([plan_steps(manifest, constants, args, launch, post, order)], post)[0]


def plan_steps(manifest: Manifest, constants: Mapping[int, Array], args: Sequence[Array], launch: Launch, post: Post,
               order: Sequence[int] | None = None) -> Generator[Node, None, list[Array]]:  # fmt: skip
    """Return a generator that runs a plan (see `simulate.together`), and finally returns the global outputs.

    It yields a transfer while it waits for another mesh.
    """

    def write_inputs(frame: Frame, rank: int) -> None:
        place_arguments(manifest, constants, args, frame, rank)

    frames = yield from rank_steps(manifest, write_inputs, launch, post, order)
    return assembled(manifest, [[frame.view(b.buffer).copy() for b in manifest.outputs] for frame in frames])


def rank_steps(manifest: Manifest, write_inputs: Callable[[Frame, int], None], launch: Launch, post: Post,
               order: Sequence[int] | None = None) -> Generator[Node, None, list[Frame]]:  # fmt: skip
    """Return a generator that runs a plan as `plan_steps` does, and finally returns the frames of all ranks.

    Args:
        write_inputs: function that writes inputs and constants to the frame of a rank.
    """
    plan, mesh = manifest.plan, manifest.mesh
    for joining_mesh in (mesh, *(item.attrs.peer for item in plan.items if is_transfer(item))):
        post.join(joining_mesh)
    ranks = [Rank(plan, mesh, rank, launch, post.first_rank) for rank in range(mesh.size)]
    for number, rank in enumerate(ranks):
        write_inputs(rank.frame, number)
    for number in order if order is not None else range(len(plan.items)):
        item = plan.items[number]
        while is_transfer_recv(item) and not post.has(item.attrs.channel):
            yield _node(plan, item)
        _run_together([rank.run(number) for rank in ranks], mesh, post)
        if is_transfer_send(item):
            post.announce(item.attrs.channel)
    return [rank.frame for rank in ranks]


def place_arguments(
    manifest: Manifest, constants: Mapping[int, Array], args: Sequence[Array], frame: Frame, rank: int
) -> None:
    """Write the constants, and a rank's shards of the global arguments, to the frame of the rank."""
    for number, value in constants.items():
        frame.view(number)[...] = value
    for binding, value in zip(manifest.inputs, args, strict=True):
        is_whole = manifest.arguments == "global"
        local = value if is_whole else shard_array(value, binding.sharding, manifest.mesh, rank)
        frame.view(binding.buffer)[...] = local


def _run_together(running: Sequence[Iterator[Request]], mesh: Mesh, post: Post) -> None:
    """Run one item on all ranks. Each rank runs until it communicates; then all ranks communicate together."""
    while any(now := [next(request, None) for request in running]):
        if choices := [request for request in now if isinstance(request, Choice)]:
            numbers = [request.number if isinstance(request, Choice) else None for request in now]
            require_equal_choices(choices[0].item, numbers)
        else:
            pending = [request if isinstance(request, Pending) else None for request in now]
            communicate(pending, mesh, post.wires, post.first_rank[mesh.name])


def _node(plan: Schedule, item: Item) -> Node:
    """Return an IR node with the op, attributes and types of a collective item."""
    inputs, outputs = ([Value(plan.buffers[n].type) for n in numbers] for numbers in (item.inputs, item.outputs))
    return Node(item.op, inputs, outputs, item.attrs)
