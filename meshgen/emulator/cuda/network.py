"""The emulated NCCL across processes, each with one emulated GPU. The processes exchange calls and operands as
messages.

When a call starts, its rank sends the call and its operand to all other parties of the meeting. Each process then
updates its own memory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from meshgen.ccl.world import World
from meshgen.emulator.cuda.collectives import Call, Clique, Meeting, Party, numpy_dtype_of
from meshgen.emulator.cuda.timeline import Timeline


class Network:
    """Connection of the emulated NCCL to the other processes of a program."""

    def __init__(self, world: World, timeline: Timeline) -> None:
        self.world, self._timeline = world, timeline
        # start time of the current idle period, and the number of work items done before it
        self._begin, self._done = time.monotonic(), 0

    def tell(self, meeting: Meeting, party: Party) -> None:
        """Send the call and operand of a rank of this process to all other parties."""
        encoded_call = json.dumps(asdict(party.call)).encode()
        for rank in {*meeting.parties} - {party.rank}:
            self.world.send(
                meeting.clique.processes[rank],
                _message_name(meeting, party.rank),
                encoded_call + b"\n" + party.source.tobytes(),
            )

    def together(self, clique: Clique, value: dict[str, Any]) -> list[dict[str, Any]]:
        """Gather a value from each rank of a clique. All ranks must call this function."""
        members = [clique.processes[rank] for rank in range(clique.ranks)]
        with self.world.doing(lambda: f"the making of {clique.name}"):
            gathered = self.world.all_gather(f"nccl/{clique.key}", json.dumps(value).encode(), members)
        return [json.loads(bytes(content)) for content in gathered]

    def listen(self, cliques: Iterable[Clique]) -> None:
        """Receive the calls of other ranks. This is called while no local work can run.

        Raises RuntimeFailure MG0609 if they do not arrive in time.
        """
        meetings = [meeting for clique in cliques for meeting in clique.meetings.values() if clique.processes]
        progressed = [meeting for meeting in meetings if self._receive_calls(meeting)]
        if progressed:
            return
        if self._timeline.done != self._done:
            self._begin, self._done = time.monotonic(), self._timeline.done
        missing = {blocked.clique.processes[rank] for blocked in meetings if blocked.here for rank in blocked.missing()}
        self.world.wait(missing, self._begin)

    def _receive_calls(self, meeting: Meeting) -> bool:
        """Receive calls for the meeting from other processes. Returns whether one has newly arrived."""
        has_arrived = False
        for rank in meeting.missing():
            process = meeting.clique.processes[rank]
            if (
                process == self.world.rank
                or (content := self.world.take(process, _message_name(meeting, rank))) is None
            ):
                continue
            encoded_call, _, operand = bytes(content).partition(b"\n")
            call = Call(**json.loads(encoded_call))
            meeting.join(Party(rank, call, np.frombuffer(operand, numpy_dtype_of(call.dtype))), self._timeline)
            has_arrived = True
        return has_arrived


def _message_name(meeting: Meeting, rank: int) -> str:
    """Return the name of the message with the call of `rank` in a meeting."""
    return f"nccl/{meeting.clique.key}/{'/'.join(map(str, meeting.key))}/{rank}"
