"""Control flow that the host follows, as a program of jumps over segments of recorded work.

a loop whose trips depend on values becomes
RUN hand over; top: RUN condition; CHOOSE by its result (0: end, 1: body); body: RUN body; RUN hand over; JUMP top; end:
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.frames import Frame
from meshgen.runtime.cuda.part import Part, Waits
from meshgen.runtime.cuda.regions import carried, given_back
from meshgen.runtime.native.recording import BASE, RecordingApi
from meshgen.runtime.native.words import Control, Record
from meshgen.runtime.plan import Item


@dataclass(frozen=True)
class Segment:
    """Work that is issued together, captured in one graph: per rank its operations in order."""

    work: Mapping[int, Sequence[Record]]


class PartRecorder(Part):
    """Issues a step of one mesh once, and follows all ways through it.

    Attributes:
        segments: what `Control.RUN` numbers.
        code: the words of the control.
    """

    def __init__(self, api: RecordingApi, frame: Frame, devices: Mapping[int, Device], comms: Communicators) -> None:
        super().__init__(api, frame, devices, comms, use_graphs=False, warm_up=False)
        self._tape = api.tape
        self.segments: list[Segment] = []
        self.code: list[int] = []

    def record(self) -> None:
        """The whole step."""
        for _ in self.step():
            pass
        self.code.append(Control.END)

    def _launch(self, place: object, ranks: Sequence[int], issue: Callable[[], None]) -> int:
        self._tape.begin()
        issue()
        if self._tape.issued:
            self.code += [Control.RUN, len(self.segments)]
            self.segments.append(Segment({rank: tuple(self._tape.issued.get(rank, ())) for rank in ranks}))
        return 0

    def _loop(self, frame: Frame, number: int, item: Item) -> Waits:
        condition, body = frame.regions[number]
        skip = self._only(frame)
        yield self._hand_over((), frame, carried(frame, item))
        top = len(self.code)
        yield from self._run(condition)
        leave, go_on = self._choose(condition, condition.plan.outputs[0], 2)
        self.code[go_on] = len(self.code)
        yield from self._run(body)
        yield self._hand_over((), frame, given_back(frame, item, body))
        self.code += [Control.JUMP, top]
        self.code[skip] = self.code[leave] = len(self.code)

    def _branch(self, frame: Frame, number: int, item: Item) -> Waits:
        regions = frame.regions[number]
        skip = self._only(frame)
        targets = self._choose(frame, item.inputs[0], len(regions))
        ends: list[int] = []
        for target, region in zip(targets, reversed(regions) if item.op == "if" else regions, strict=True):
            self.code[target] = len(self.code)
            yield from self._run(region)
            yield self._hand_over((), frame, given_back(frame, item, region))
            self.code += [Control.JUMP, 0]
            ends.append(len(self.code) - 1)
        for place in (skip, *ends):
            self.code[place] = len(self.code)

    def _only(self, frame: Frame) -> int:
        """What follows concerns ranks that may all be elsewhere: the place of the target then."""
        self.code += [Control.ONLY, frame.ranks[0], len(frame.ranks), 0]
        return len(self.code) - 1

    def _choose(self, frame: Frame, number: int, count: int) -> range:
        """The places of the targets."""
        place = frame.address(number, frame.ranks[0]) - BASE
        nbytes = frame.plan.buffers[number].type.nbytes
        self.code += [Control.CHOOSE, frame.ranks[0], len(frame.ranks), place, nbytes, count, *[0] * count]
        return range(len(self.code) - count, len(self.code))
