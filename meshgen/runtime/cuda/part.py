"""A module of one mesh on its devices: issues its plan, and follows its control flow where the host must decide.

What depends on nothing that only a device knows is issued in stretches, each captured in one CUDA graph for all ranks: most
programs are one stretch. Between stretches the host reads what a loop or branch decides by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from meshgen.ir.evaluate.control import case_branch
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.collectives import run_lowered
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.frames import Frame
from meshgen.runtime.cuda.graph import StepGraph, fork, join
from meshgen.runtime.cuda.others import Others
from meshgen.runtime.cuda.regions import (
    Copy,
    carried,
    given_back,
    in_order,
    next_values,
    staged_bytes,
    streams_of,
    stretches,
)
from meshgen.runtime.execute import require_one_way
from meshgen.runtime.plan import COMPUTE, CONTROL, STREAMS, Item, aligned

Array = np.ndarray[Any, Any]
Waits = Iterator[int]  # streams, each of which must be idle before the iterator is asked for the next one


class Part:
    """The steps of one mesh. Ranks are numbered in the world of all meshes of the program."""

    def __init__(self, api: Api, frame: Frame, devices: Mapping[int, Device], comms: Communicators, *,
                 use_graphs: bool, warm_up: bool, others: Others | None = None) -> None:  # fmt: skip
        """See `Executor`. `others`: the ranks of other processes; None: there are none."""
        self.frame, self._api, self._devices, self._comms = frame, api, devices, comms
        self._others = others
        self._use_graphs, self._warm_up = use_graphs, warm_up
        self._warm: set[object] = set()  # stretches that have run
        self._next = next_values(frame)
        self._staged_bytes = max(staged_bytes(frame.plan), sum(aligned(copy.nbytes) for copy in self._next))
        self._staging = {
            rank: device.allocate(self._staged_bytes * STREAMS, f"staging of rank {rank}")
            for rank, device in devices.items()
        }
        self.graphs: dict[object, StepGraph] = {}
        self._moved: set[object] = set()  # graphs with addresses that are not the frame's

    def step(self) -> Waits:
        """One step, from idle devices to idle devices; inputs that stay have their next values then."""
        yield from self._run(self.frame)
        if self._next:
            yield self._hand_over("next values", self.frame, self._next)

    @property
    def origin(self) -> int:
        """The stream that is idle when a step is done."""
        return self._devices[self.frame.ranks[0]].streams[0]

    @property
    def only_graph(self) -> StepGraph | None:
        """The graph that is a whole step, once it is captured; None where a step is more than one, or none yet."""
        (graph,) = self.graphs.values() if len(self.graphs) == 1 else (None,)
        is_whole = not self._next and [*stretches(self.frame.plan)] == [tuple(range(len(self.frame.plan.items)))]
        return graph if is_whole else None

    def rebind(self, frame: Frame) -> None:
        """Go on with a frame of the same plan whose buffers lie elsewhere: graphs are captured again where they are used next."""
        self.frame, self._next = frame, next_values(frame)
        self._moved.update(self.graphs)

    def close(self) -> None:
        for graph in self.graphs.values():
            graph.close()

    # --- on the host: stretches, and what it decides between them --------------------------------------------------------

    def _run(self, frame: Frame) -> Waits:
        for stretch in stretches(frame.plan):
            if isinstance(stretch, int):
                yield from self._decide(frame, stretch, frame.plan.items[stretch])
            else:
                yield self._launch((frame.path, stretch), frame.ranks, partial(self._issue, frame, stretch))

    def _launch(self, place: object, ranks: Sequence[int], issue: Callable[[], None]) -> int:
        """Issue work, by its graph if there is one; the stream that is idle when it is done."""
        streams = [(self._devices[rank], stream) for rank in ranks for stream in self._devices[rank].streams]
        key = (place, tuple(ranks))
        if not self._use_graphs or (self._warm_up and key not in self._warm):
            self._warm.add(key)
            fork(streams[0], streams[1:], "fork")
            issue()
            join(streams[0], streams[1:], "join")
            return streams[0][1]
        if key not in self.graphs:
            self.graphs[key] = StepGraph(self._api, streams, issue)
        elif key in self._moved:
            self.graphs[key].capture(issue)
            self._moved.remove(key)
        self.graphs[key].launch()
        return streams[0][1]

    def _decide(self, frame: Frame, number: int, item: Item) -> Waits:
        """Control flow that the host follows: every rank by itself where nothing is exchanged in it."""
        if not item.communicates and len(frame.ranks) > 1:
            for rank in frame.ranks:
                yield from self._decide(frame.alone(rank), number, item)
        elif item.op == "while":
            yield from self._loop(frame, number, item)
        else:
            yield from self._branch(frame, number, item)

    def _loop(self, frame: Frame, number: int, item: Item) -> Waits:
        condition, body = frame.regions[number]
        yield self._hand_over((frame.path, number, "begin"), frame, carried(frame, item))
        while True:
            yield from self._run(condition)
            if not self._choice(item, condition, condition.plan.outputs[0]):
                return
            yield from self._run(body)
            yield self._hand_over((frame.path, number, "next"), frame, given_back(frame, item, body))

    def _branch(self, frame: Frame, number: int, item: Item) -> Waits:
        choice = self._choice(item, frame, item.inputs[0])
        place = (0 if choice else 1) if item.op == "if" else case_branch(np.array(choice), len(item.regions))
        region = frame.regions[number][place]
        yield from self._run(region)
        yield self._hand_over((frame.path, number, place), frame, given_back(frame, item, region))

    def _hand_over(self, place: object, frame: Frame, copies: Sequence[Copy]) -> int:
        return self._launch(place, frame.ranks, partial(self._copy, frame.ranks, COMPUTE, copies))

    def _choice(self, item: Item, frame: Frame, number: int) -> int:
        """A buffer of one element, which all ranks must agree on. Raises RuntimeFailure MG0604."""
        kind = frame.plan.buffers[number].type
        found = [
            int(self._devices[rank].download(frame.address(number, rank), np.empty((), kind.numpy_dtype)))
            for rank in frame.ranks
        ]
        if self._others and item.communicates:
            found = self._others.choices(item, found[0])
        require_one_way(item, found)
        return found[0]

    # --- to the devices --------------------------------------------------------------------------------------------------

    def _issue(self, frame: Frame, numbers: Sequence[int]) -> None:
        """Items in order, on the streams of the frame's ranks; events of items that are not among them are over."""
        recorded = {frame.plan.items[n].records for n in numbers}
        if len(frame.ranks) == 1:
            self._devices[frame.ranks[0]].use()  # and no other one until all is issued
        for number in numbers:
            item = frame.plan.items[number]
            for event in item.waits:
                if event in recorded:
                    self._wait(frame, item.stream, event)
            self._issue_item(frame, number, item)
            for rank in frame.ranks if item.records is not None else ():
                device = self._devices[rank]
                device.record((frame.path, item.records), device.streams[item.stream])

    def _wait(self, frame: Frame, stream: int, event: int) -> None:
        for rank in frame.ranks:
            device = self._devices[rank]
            self._api.cuda("cuStreamWaitEvent", device.streams[stream], device.event((frame.path, event)), 0)

    def _issue_item(self, frame: Frame, number: int, item: Item) -> None:
        if item.op in CONTROL:
            self._issue_loop(frame, number, item)
        elif item.is_collective:
            if self._others:
                self._others.note(item, frame.works[number])
            run_lowered(self._api, self._comms, {rank: frame.works[number][rank] for rank in frame.ranks})
        else:
            is_alone = len(frame.ranks) == 1
            for rank in frame.ranks:
                device = self._devices[rank]
                if launch := frame.launches[number][rank]:
                    device.launch(launch, device.streams[item.stream], is_current=is_alone)

    def _issue_loop(self, frame: Frame, number: int, item: Item) -> None:
        """A loop whose trips are known: its body as often as that."""
        _, body = frame.regions[number]
        everything = tuple(range(len(body.plan.items)))
        self._copy(frame.ranks, item.stream, carried(frame, item))
        for _ in range(item.times):
            self._meet(body, item.stream, fork)
            self._issue(body, everything)
            self._meet(body, item.stream, join)
            self._copy(frame.ranks, item.stream, given_back(frame, item, body))

    def _meet(self, frame: Frame, stream: int, how: Callable[..., None]) -> None:
        """The streams that a region uses begin after that of its item (`fork`), or that one goes on after them (`join`)."""
        for rank in frame.ranks:
            device = self._devices[rank]
            others = [(device, device.streams[each]) for each in sorted(streams_of(frame.plan) - {stream})]
            how((device, device.streams[stream]), others, (frame.path, how.__name__))

    def _copy(self, ranks: Sequence[int], stream: int, copies: Sequence[Copy]) -> None:
        """Several copies as if all were done at once."""
        for rank in ranks:
            device, staging = self._devices[rank], self._staging[rank] + stream * self._staged_bytes
            for source, target, nbytes in in_order(copies, rank, staging):
                device.copy(target, source, nbytes, device.streams[stream])
