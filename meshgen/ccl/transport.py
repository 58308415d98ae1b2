"""What executes lowered steps on one rank: the memory of its device, and a network to the other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from meshgen.ccl.steps import Communication, Copy, Fill, Group, Lowered, Messages, Reduce


class Device(Protocol):
    """Work in a device's own memory, on its stream of communication."""

    def copy(self, step: Copy) -> None: ...

    def fill(self, step: Fill) -> None: ...

    def reduce(self, step: Reduce) -> None: ...


class Transport(Protocol):
    """Work that other ranks take part in. Calls between `begin` and `end` may become one launch.

    All calls may return before the work is done. `poll` raises RuntimeFailure MG0604 where a peer is lost or does not answer;
    `abort` ends what is under way, after which nothing else may be called.
    """

    def begin(self) -> None: ...

    def group(self, step: Group) -> None: ...

    def messages(self, step: Messages) -> None: ...

    def end(self) -> None: ...

    def poll(self) -> None: ...

    def abort(self) -> None: ...


def local_steps(lowered: Lowered, device: Device) -> Iterator[Communication]:
    """Runs the steps in order on the device; yields those that communicate when it is their turn, for who has the network."""
    for step in lowered.steps:
        match step:
            case Copy():
                device.copy(step)
            case Fill():
                device.fill(step)
            case Reduce():
                device.reduce(step)
            case Group() | Messages():
                yield step


def execute(lowered: Lowered, device: Device, transport: Transport) -> None:
    """One rank's part of a collective."""
    for step in local_steps(lowered, device):
        transport.begin()
        transport.group(step) if isinstance(step, Group) else transport.messages(step)
        transport.end()
