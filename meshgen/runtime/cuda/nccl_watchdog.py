"""A watchdog for NCCL calls, which wait for peers without a time-out."""

from __future__ import annotations

from meshgen.ccl.world import World
from meshgen.errors import RuntimeFailure
from meshgen.runtime.processes.watchdog import Watchdog


class Guard(Watchdog):
    """A context that ends the process if this thread does not call `beat` within the time-out of `world`."""

    def __init__(self, world: World, doing: str) -> None:
        """`doing` names the guarded operation in the error message, for example "the making of NCCL's communicators"."""

        def failure(reason: str) -> RuntimeFailure:
            with world.doing(lambda: doing):
                return world.failure(reason)

        # this thread is inside an NCCL call and does not use the world, so the watchdog thread can report the failure
        super().__init__(world.time_out, failure, world.fail)
