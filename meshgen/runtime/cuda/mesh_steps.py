"""Execution of a single-mesh module on its devices: issue the instructions of its schedule (`runtime/control_flow.py`).

Consecutive work that does not depend on a decision of the host is one instruction, captured in one CUDA graph for all
ranks. Most programs are a single instruction. Between instructions, the host reads the predicates of loops and branches
from the devices.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from meshgen.runtime.control_flow import (
    Choose,
    Issue,
    Move,
    carried,
    code_of,
    follow,
    from_region_dtype,
    require_equal_choices,
)
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.collectives import run_lowered
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.frames import Call, Frame
from meshgen.runtime.cuda.graph import StepGraph, fork, join
from meshgen.runtime.cuda.regions import Copy, copies_of, in_order, is_decided, next_values, staged_bytes, streams_of
from meshgen.runtime.cuda.remote_ranks import RemoteRanks
from meshgen.runtime.plan import COMMUNICATION, COMPUTE, Item, aligned

Array = np.ndarray[Any, Any]
Waits = Iterator[int]  # yields streams; each must be idle before the iterator is advanced


class Part:
    """A single-mesh module on its devices, which runs steps of the module.

    Ranks are global: they number the devices of all meshes of the program.
    """

    def __init__(self, api: Api, frame: Frame, devices: Mapping[int, Device], comms: Communicators, *,
                 use_graphs: bool, warm_up: bool, remote_ranks: RemoteRanks | None = None, kept: Iterable[int] = ()) -> None:  # fmt: skip
        """Prepare the steps (see `Executor`).

        Args:
            remote_ranks: interface to the ranks of other processes, or None if this process runs all ranks.
            kept: output buffers that lie in the memory of arguments. The end of a step copies them to separate memory,
                `self.kept`, before it overwrites the arguments with their next values.
        """
        self.frame, self._api, self._devices, self._comms = frame, api, devices, comms
        self._code = code_of(frame, is_decided)
        self._remote_ranks = remote_ranks
        self._use_graphs, self._warm_up = use_graphs, warm_up
        self._streams = sorted({COMPUTE, COMMUNICATION} | streams_of(frame.plan))
        self._warm: set[int] = set()  # instructions that have run at least once
        self._next = next_values(frame)
        self.kept = {
            buffer: {rank: device.allocate(nbytes, f"a result of rank {rank}") for rank, device in devices.items()}
            for buffer in kept
            if (nbytes := frame.plan.buffers[buffer].type.nbytes)
        }
        self._staged_bytes = max(staged_bytes(frame.plan), sum(aligned(copy.nbytes) for copy in self._next))
        self._staging = {
            rank: device.allocate(self._staged_bytes * (1 + self._streams[-1]), f"staging of rank {rank}")
            for rank, device in devices.items()
        }
        self.graphs: dict[int, StepGraph] = {}  # index of the instruction -> its graph
        # indices of graphs that still have the addresses of an earlier frame and must be captured again
        self._moved: set[int] = set()

    def step(self) -> Waits:
        """Run a step.

        All streams are idle before and after it. Yields the streams for which it waits. Afterwards, persistent inputs
        hold their next values.
        """
        yield from follow(self._code, self)
        if self._next or self.kept:
            yield self._launch(len(self._code), self.frame.ranks, self._finish)

    @property
    def origin(self) -> int:
        """Return the stream that becomes idle when a step has finished."""
        return self._devices[self.frame.ranks[0]].streams[0]

    @property
    def context(self) -> Any:
        """Return the CUDA context of the origin stream."""
        return self._devices[self.frame.ranks[0]].context

    @property
    def only_graph(self) -> StepGraph | None:
        """Return the graph if a single graph runs the entire step, else None.

        None also if it has not been captured yet.
        """
        (graph,) = self.graphs.values() if len(self.graphs) == 1 else (None,)
        return graph if len(self._code) == 1 and not self._next and not self.kept else None

    def rebind(self, frame: Frame) -> None:
        """Use `frame`, which has the same schedule as the current frame but other addresses, from the next step on.

        Each graph is captured again at its next use.
        """
        self.frame, self._code, self._next = frame, code_of(frame, is_decided), next_values(frame)
        self._moved.update(self.graphs)

    def close(self) -> None:
        for graph in self.graphs.values():
            graph.close()

    # --- methods of `control_flow.Engine` --------------------------------------------------------------------------------

    def enter(self, frame: Frame) -> None:
        """Do nothing: arenas need no initialization."""

    def issue(self, position: int, step: Issue[Frame]) -> Waits:
        """Issue the items of an instruction."""
        yield self._launch(position, step.frame.ranks, partial(self._issue, step.frame, step.items))

    def move(self, position: int, step: Move[Frame]) -> Waits:
        """Issue the copies of an instruction."""
        yield self._hand_over(position, step.target.ranks, copies_of(step))

    def begin_iteration(self, frame: Frame, trip: int) -> None:
        """Do nothing: iterations of scans are issued with the surrounding items."""

    def choice(self, step: Choose[Frame]) -> Generator[int, None, int]:
        """Read a branch decision from all ranks, after the issued work has finished."""
        yield from ()
        frame, decision_type = step.frame, step.frame.plan.buffers[step.buffer].type
        decisions = [
            int(self._devices[rank].download(frame.address(step.buffer, rank), np.empty((), decision_type.numpy_dtype)))
            for rank in frame.ranks
        ]
        if self._remote_ranks and step.item.communicates:
            decisions = self._remote_ranks.choices(step.item, decisions[0])
        require_equal_choices(step.item, decisions)
        return decisions[0]

    def _launch(self, position: int, ranks: Sequence[int], issue: Callable[[], None]) -> int:
        """Issue the work of an instruction, in a CUDA graph if possible, and return the stream in which it ends."""
        devices = [self._devices[rank] for rank in ranks]
        streams = [(device, device.streams[stream_index]) for device in devices for stream_index in self._streams]
        if not self._use_graphs or (self._warm_up and position not in self._warm):
            self._warm.add(position)
            fork(streams[0], streams[1:], "fork")
            issue()
            join(streams[0], streams[1:], "join")
            return streams[0][1]
        if position not in self.graphs:
            self.graphs[position] = StepGraph(self._api, streams, issue)
        elif position in self._moved:
            self.graphs[position].capture(issue)
            self._moved.remove(position)
        self.graphs[position].launch()
        return streams[0][1]

    def _finish(self) -> None:
        """Copy results out of the memory of arguments, then copy the next values of arguments into this memory."""
        result_copies = [
            Copy(self.frame.addresses(buffer), addresses, self.frame.plan.buffers[buffer].type.nbytes)
            for buffer, addresses in self.kept.items()
        ]
        for copies in (result_copies, self._next):
            self._copy(self.frame.ranks, COMPUTE, copies)

    def _hand_over(self, position: int, ranks: Sequence[int], copies: Sequence[Copy]) -> int:
        return self._launch(position, ranks, partial(self._copy, ranks, COMPUTE, copies))

    # --- issuing work to the devices ---------------------------------------------------------------------------------

    def _issue(self, frame: Frame, numbers: Sequence[int]) -> None:
        """Issue items in order on the streams of the frame's ranks.

        Event waits for items that are not in `numbers` are skipped, because these items have already finished.
        """
        if len(frame.ranks) == 1:
            # The context of this device stays current, because no call here concerns another device.
            self._devices[frame.ranks[0]].use()
        for call in self._calls_of(frame, tuple(numbers)):
            call()

    def _calls_of(self, frame: Frame, numbers: tuple[int, ...]) -> Iterable[Call]:
        """Return the calls that issue the items.

        The calls of a step are cached. The calls of regions are not, because there are very many, each used once.
        """
        if frame.path:
            return self._calls(frame, numbers)
        if numbers not in frame.calls:
            frame.calls[numbers] = [*self._calls(frame, numbers)]
        return frame.calls[numbers]

    def _calls(self, frame: Frame, numbers: Sequence[int]) -> Iterator[Call]:
        recorded = {frame.plan.items[n].records for n in numbers}
        for item_index in numbers:
            item = frame.plan.items[item_index]
            for event in item.waits:
                if event in recorded:
                    yield partial(self._wait, frame, item.stream, event)
            yield from self._calls_of_item(frame, item_index, item)
            for rank in frame.ranks if item.records is not None else ():
                device = self._devices[rank]
                yield partial(device.record, (frame.path, item.records), device.streams[item.stream])

    def _wait(self, frame: Frame, stream: int, event: int) -> None:
        for rank in frame.ranks:
            device = self._devices[rank]
            self._api.cuda("cuStreamWaitEvent", device.streams[stream], device.event((frame.path, event)), 0)

    def _calls_of_item(self, frame: Frame, item_index: int, item: Item) -> Iterator[Call]:
        if launches := frame.launches.get(item_index):
            is_alone = len(frame.ranks) == 1
            for rank in frame.ranks:
                device = self._devices[rank]
                if launch := launches[rank]:
                    yield partial(device.launch, launch, device.streams[item.stream], is_current=is_alone)
        elif item.is_collective:
            yield partial(self._communicate, frame, item_index, item)
        else:
            yield partial(self._issue_scan, frame, item_index, item)

    def _communicate(self, frame: Frame, item_index: int, item: Item) -> None:
        if self._remote_ranks:
            self._remote_ranks.note(item, frame.works[item_index])
        run_lowered(self._api, self._comms, {rank: frame.works[item_index][rank] for rank in frame.ranks})

    def _issue_scan(self, frame: Frame, item_index: int, item: Item) -> None:
        """Issue the body of a scan once per iteration."""
        bodies = frame.regions[item_index]
        all_items = tuple(range(len(bodies[0].plan.items)))
        self._copy(frame.ranks, item.stream, copies_of(carried(frame, item)))
        for body in bodies:
            self._meet(body, item.stream, fork)
            self._issue(body, all_items)
            self._meet(body, item.stream, join)
            self._copy(frame.ranks, item.stream, copies_of(from_region_dtype(frame, item, body)))

    def _meet(self, frame: Frame, stream: int, synchronize: Callable[..., None]) -> None:
        """Let the streams of a region wait for the stream of its control-flow item, or the other way round.

        `synchronize` is `fork` before the region and `join` after it.
        """
        for rank in frame.ranks:
            device = self._devices[rank]
            region_streams = [
                (device, device.streams[stream_index]) for stream_index in sorted(streams_of(frame.plan) - {stream})
            ]
            synchronize((device, device.streams[stream]), region_streams, (frame.path, synchronize.__name__))

    def _copy(self, ranks: Sequence[int], stream: int, copies: Sequence[Copy]) -> None:
        """Issue copies that act as a parallel copy on each rank: all sources are read before a target is written."""
        for rank in ranks:
            device, staging = self._devices[rank], self._staging[rank] + stream * self._staged_bytes
            for source, target, nbytes in in_order(copies, rank, staging):
                device.copy(target, source, nbytes, device.streams[stream])
