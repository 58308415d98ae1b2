"""The emulated NCCL between processes: one emulated GPU in each, and what calls of other ranks need comes as messages.

Every rank sends what it calls, and what it gives, to all other parties of a meeting when it begins; each of them then does by
itself what happens in its own memory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from meshgen.ccl.world import World
from meshgen.emulator.cuda.collectives import Call, Clique, Meeting, Party, numbers_of
from meshgen.emulator.cuda.timeline import Timeline


class Network:
    """The other processes of a program."""

    def __init__(self, world: World, timeline: Timeline) -> None:
        self.world, self._timeline = world, timeline
        self._begin, self._done = time.monotonic(), 0  # of the time in which nothing was done here

    def tell(self, meeting: Meeting, party: Party) -> None:
        """Send the call and operand of a rank of this process to all other parties."""
        said = json.dumps(asdict(party.call)).encode()
        for rank in {*meeting.parties} - {party.rank}:
            self.world.send(
                meeting.clique.processes[rank],
                _message_name(meeting, party.rank),
                said + b"\n" + party.source.tobytes(),
            )

    def together(self, clique: Clique, said: dict[str, Any]) -> list[dict[str, Any]]:
        """All-gather of a value per rank of a clique, when all have reached this call."""
        members = [clique.processes[rank] for rank in range(clique.ranks)]
        with self.world.doing(lambda: f"the making of {clique.name}"):
            found = self.world.all_gather(f"nccl/{clique.key}", json.dumps(said).encode(), members)
        return [json.loads(bytes(each)) for each in found]

    def listen(self, cliques: Iterable[Clique]) -> None:
        """Let calls of other ranks come, while nothing can be done here. Raises RuntimeFailure MG0609."""
        meetings = [meeting for clique in cliques for meeting in clique.meetings.values() if clique.processes]
        come = [meeting for meeting in meetings if self._has_come(meeting)]
        if come:
            return
        if self._timeline.done != self._done:
            self._begin, self._done = time.monotonic(), self._timeline.done
        missing = {each.clique.processes[rank] for each in meetings if each.here for rank in each.missing()}
        self.world.wait(missing, self._begin)

    def _has_come(self, meeting: Meeting) -> bool:
        """Whether a rank of another process has come to a meeting."""
        found = False
        for rank in meeting.missing():
            process = meeting.clique.processes[rank]
            if (
                process == self.world.rank
                or (content := self.world.take(process, _message_name(meeting, rank))) is None
            ):
                continue
            said, _, given = bytes(content).partition(b"\n")
            call = Call(**json.loads(said))
            meeting.join(Party(rank, call, np.frombuffer(given, numbers_of(call.dtype))), self._timeline)
            found = True
        return found


def _message_name(meeting: Meeting, rank: int) -> str:
    """Of the message in which a rank says what it calls in a meeting."""
    return f"nccl/{meeting.clique.key}/{'/'.join(map(str, meeting.key))}/{rank}"
