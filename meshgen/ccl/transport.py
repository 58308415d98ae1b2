"""Execution of lowered steps on one rank: the memory of its device, and a transport to the other ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Protocol, TypeAlias, TypeVar

from meshgen.ccl.steps import Copy, Fill, Group, Lowered, Messages, Reduce

Launch: TypeAlias = tuple[Group, ...] | Messages  # one concurrent operation of a transport


class Device(Protocol):
    """Work in a device's own memory, on its stream of communication."""

    def copy(self, step: Copy) -> None: ...

    def fill(self, step: Fill) -> None: ...

    def reduce(self, step: Reduce) -> None: ...


Memory = TypeVar("Memory", bound=Device, contravariant=True)


class Transport(Protocol[Memory]):
    """Communication with other ranks, in buffers of a kind of device. Calls may return before it is done."""

    def groups(self, calls: Sequence[Group], memory: Memory) -> None:
        """Independent calls in one communicator: one launch."""
        ...

    def messages(self, step: Messages, memory: Memory) -> None:
        """All sends and receives of a step. Both methods raise RuntimeFailure MG0609: a peer is lost or does not respond."""
        ...


def launches(lowered: Lowered, device: Device) -> Iterator[Launch]:
    """Run the local steps in order on the device; yield the communicating ones, for the owner of the transport."""
    for are_calls, steps in groupby(lowered.steps, key=lambda step: isinstance(step, Group)):
        if are_calls:
            yield tuple(step for step in steps if isinstance(step, Group))
            continue
        for step in steps:
            match step:
                case Copy():
                    device.copy(step)
                case Fill():
                    device.fill(step)
                case Reduce():
                    device.reduce(step)
                case _:
                    assert isinstance(step, Messages)
                    yield step


def axes_of(launch: Launch) -> tuple[str, ...]:
    """The axes of a communicating step; empty between meshes."""
    return launch.axes if isinstance(launch, Messages) else launch[0].axes


def execute(lowered: Lowered, memory: Memory, transport: Transport[Memory]) -> None:
    """One rank's part of a collective, in its operands, results and scratch."""
    for launch in launches(lowered, memory):
        perform(launch, memory, transport)


def perform(launch: Launch, memory: Memory, transport: Transport[Memory]) -> None:
    """Run one communicating step."""
    if isinstance(launch, Messages):
        transport.messages(launch, memory)
    else:
        transport.groups(launch, memory)
