"""The control flow of a step as words of the launch table: instructions of the GPU executor over recorded segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meshgen.runtime.control_flow import Choose, Instruction, Issue, Jump, Move, Only
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.frames import Frame
from meshgen.runtime.cuda.mesh_steps import Part
from meshgen.runtime.cuda.regions import overwritten_results
from meshgen.runtime.native.recording import BASE, RecordingApi
from meshgen.runtime.native.table_format import Control, Record


@dataclass(frozen=True)
class Segment:
    """Recorded work that one CUDA graph captures: a map from each rank to its operations in order."""

    work: Mapping[int, Sequence[Record]]


class PartRecorder(Part):
    """A recorder of one mesh's step.

    It issues each instruction once, regardless of control flow, and records the work.

    Next values that a step does not compute in place are copied to their donated arguments in an additional last
    segment.

    Attributes:
        segments: the recorded segments, to which `Control.RUN` refers by index.
        words: the encoded instructions.
    """

    def __init__(self, api: RecordingApi, frame: Frame, devices: Mapping[int, Device], comms: Communicators) -> None:
        kept = overwritten_results(frame)
        super().__init__(api, frame, devices, comms, use_graphs=False, warm_up=False, kept=kept)
        self._tape = api.tape
        self.segments: list[Segment] = []
        self.words: list[int] = []
        # positions in `words` of jump targets, which are indices of instructions until `record` replaces them
        self._targets: list[int] = []

    def record(self) -> None:
        """Record the entire step."""
        starts: list[int] = []
        for index, step in enumerate(self._code):
            starts.append(len(self.words))
            self._put(index, step)
        starts.append(len(self.words))
        for index in self._targets:
            self.words[index] = starts[self.words[index]]
        if self._next:
            self._launch(len(self._code), self.frame.ranks, self._finish)
        self.words.append(Control.END)

    def _put(self, position: int, step: Instruction[Frame]) -> None:
        match step:
            case Issue():
                list(self.issue(position, step))
            case Move():
                list(self.move(position, step))
            case Jump(target):
                self.words.append(Control.JUMP)
                self._put_targets([target])
            case Only(frame, target):
                self.words += [Control.ONLY, frame.ranks[0], len(frame.ranks)]
                self._put_targets([target])
            case Choose(_, frame, buffer, targets):
                offset, nbytes = frame.address(buffer, frame.ranks[0]) - BASE, frame.plan.buffers[buffer].type.nbytes
                self.words += [Control.CHOOSE, frame.ranks[0], len(frame.ranks), offset, nbytes, len(targets)]
                self._put_targets(targets)
            case _:
                pass  # the arena of a region needs no initialization

    def _put_targets(self, targets: Sequence[int]) -> None:
        self._targets += range(len(self.words), len(self.words) + len(targets))
        self.words += targets

    def _launch(self, position: int, ranks: Sequence[int], issue: Callable[[], None]) -> int:
        self._tape.begin()
        issue()
        if self._tape.issued:
            self.words += [Control.RUN, len(self.segments)]
            self.segments.append(Segment({rank: tuple(self._tape.issued.get(rank, ())) for rank in ranks}))
        return 0
