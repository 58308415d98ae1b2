"""Execution of lowered steps on one rank: local steps on its device, communicating steps through a transport."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Protocol, TypeAlias, TypeVar

from meshgen.ccl.steps import Copy, Fill, Group, Lowered, Messages, Reduce

# one operation of a transport: NCCL calls that run concurrently, or messages that are exchanged concurrently
Launch: TypeAlias = tuple[Group, ...] | Messages


class Device(Protocol):
    """Interface to a device, which runs local steps in its memory, on its communication stream."""

    def copy(self, step: Copy) -> None: ...

    def fill(self, step: Fill) -> None: ...

    def reduce(self, step: Reduce) -> None: ...


Memory = TypeVar("Memory", bound=Device, contravariant=True)


class Transport(Protocol[Memory]):
    """The interface that runs communicating steps between devices.

    `Memory` is the device class that holds the buffers.

    Calls may return before the communication completes.
    """

    def groups(self, calls: Sequence[Group], memory: Memory) -> None:
        """Run independent calls of one communicator as one launch.

        Raises:
            RuntimeFailure: MG0609, a peer has disconnected or does not respond.
        """
        ...

    def messages(self, step: Messages, memory: Memory) -> None:
        """Run all sends and receives of a step.

        Raises:
            RuntimeFailure: MG0609, a peer has disconnected or does not respond.
        """
        ...


def launches(lowered: Lowered, device: Device) -> Iterator[Launch]:
    """Run the local steps in order on `device`, and yield the communicating steps, which the caller runs."""
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
    """Return the mesh axes of the communicator, or an empty tuple for a transfer between meshes."""
    return launch.axes if isinstance(launch, Messages) else launch[0].axes


def execute(lowered: Lowered, memory: Memory, transport: Transport[Memory]) -> None:
    """Run the steps of one rank for a collective. `memory` holds the operands, results and scratch."""
    for launch in launches(lowered, memory):
        perform(launch, memory, transport)


def perform(launch: Launch, memory: Memory, transport: Transport[Memory]) -> None:
    """Run one communicating step."""
    if isinstance(launch, Messages):
        transport.messages(launch, memory)
    else:
        transport.groups(launch, memory)
