"""When a plan is left for another one: reshards, equal programs, local rewrites and messages."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.fields import chosen


@dataclass(frozen=True, eq=False)
class Resharding:
    """Paths between two shardings of a value."""

    packing_seconds: float = chosen(
        4e-6, "s", "cutting out and joining the pieces for one more peer of a transfer", matters=True
    )


@dataclass(frozen=True, eq=False)
class Rewriting:
    """Programs that are equal to the user's: estimates err alike for both, so one must be clearly cheaper."""

    worth: float = chosen(
        0.97, "ratio", "a rewritten program's time, or its time on links, to the user's", matters=False
    )
    more_dots: float = chosen(1.05, "ratio", "its work in dots, where only its time on links is shorter", matters=False)
    more_rows: float = chosen(3.0, "times", "its other work, where only its time on links is shorter", matters=False)
    near: int = chosen(
        8, "part", "of a frame's rows by which a neighbourly shift is at most: one in so many", matters=False
    )
    saved_seconds: float = chosen(
        64e-6, "s", "that fewer collectives must save where they move or repeat more: eight latencies", matters=False
    )


@dataclass(frozen=True, eq=False)
class Messages:
    """Small collectives that become one message: copies against the latencies that are saved."""

    share: float = chosen(
        1 / 8, "share", "of the saved latency that copies may take, whatever else runs", matters=False
    )
    larger_share: float = chosen(
        1 / 2, "share", "of the saved latency that copies may take, where the step is then shorter", matters=False
    )
