"""Control flow as words of the launch table: the instructions of the executor of GPUs, over segments of recorded work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from meshgen.records import dataclass
from meshgen.runtime.control_flow import Choose, Instruction, Issue, Jump, Move, Only
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.frames import Frame
from meshgen.runtime.cuda.part import Part
from meshgen.runtime.cuda.regions import Copy
from meshgen.runtime.native.recording import BASE, RecordingApi
from meshgen.runtime.native.words import Control, Record
from meshgen.runtime.plan import COMPUTE


@dataclass(frozen=True)
class Segment:
    """Work captured in one graph: per rank its operations in order."""

    work: Mapping[int, Sequence[Record]]


class PartRecorder(Part):
    """Issues every instruction of a step of one mesh once, whether a step reaches it or not.

    The last segment hands over the next values of donated arguments that are not written in place, so that steps build on each other.

    Attributes:
        segments: what `Control.RUN` numbers.
        words: of the control.
        kept: addresses of copies of the results that are in the memory of such an argument, by buffer and rank.
    """

    def __init__(self, api: RecordingApi, frame: Frame, devices: Mapping[int, Device], comms: Communicators) -> None:
        super().__init__(api, frame, devices, comms, use_graphs=False, warm_up=False)
        self._tape = api.tape
        self.segments: list[Segment] = []
        self.words: list[int] = []
        self._targets: list[int] = []  # places of words that are numbers of instructions
        self.kept = {
            number: {rank: device.allocate(nbytes, f"a result of rank {rank}") for rank, device in devices.items()}
            for number, nbytes in self._overwritten()
        }

    def _overwritten(self) -> Iterator[tuple[int, int]]:
        """The results in the memory of an argument that the hand-over writes, each with its bytes."""
        plan = self.frame.plan
        written = [copy.target for copy in self._next]
        storages = {plan.buffers[own].storage for own in plan.donated if self.frame.addresses(own) in written}
        for number in dict.fromkeys(plan.outputs):
            if plan.buffers[number].storage in storages:
                yield number, plan.buffers[number].type.nbytes

    def record(self) -> None:
        """The whole step."""
        starts: list[int] = []
        for place, step in enumerate(self._code):
            starts.append(len(self.words))
            self._put(place, step)
        starts.append(len(self.words))
        for place in self._targets:
            self.words[place] = starts[self.words[place]]
        if self._next:
            self._launch(len(self._code), self.frame.ranks, self._give_back)
        self.words.append(Control.END)

    def _give_back(self) -> None:
        """Results are read after the step: those that would be overwritten are copied first."""
        kept = [
            Copy(self.frame.addresses(number), places, self.frame.plan.buffers[number].type.nbytes)
            for number, places in self.kept.items()
        ]
        for copies in (kept, self._next):
            self._copy(self.frame.ranks, COMPUTE, copies)

    def _put(self, place: int, step: Instruction[Frame]) -> None:
        match step:
            case Issue():
                list(self.issue(place, step))
            case Move():
                list(self.move(place, step))
            case Jump(target):
                self.words.append(Control.JUMP)
                self._put_targets([target])
            case Only(frame, target):
                self.words += [Control.ONLY, frame.ranks[0], len(frame.ranks)]
                self._put_targets([target])
            case Choose(_, frame, buffer, targets):
                place, nbytes = frame.address(buffer, frame.ranks[0]) - BASE, frame.plan.buffers[buffer].type.nbytes
                self.words += [Control.CHOOSE, frame.ranks[0], len(frame.ranks), place, nbytes, len(targets)]
                self._put_targets(targets)
            case _:
                pass  # the arena of a region needs no initialisation

    def _put_targets(self, targets: Sequence[int]) -> None:
        self._targets += range(len(self.words), len(self.words) + len(targets))
        self.words += targets

    def _launch(self, place: int, ranks: Sequence[int], issue: Callable[[], None]) -> int:
        self._tape.begin()
        issue()
        if self._tape.issued:
            self.words += [Control.RUN, len(self.segments)]
            self.segments.append(Segment({rank: tuple(self._tape.issued.get(rank, ())) for rank in ranks}))
        return 0
