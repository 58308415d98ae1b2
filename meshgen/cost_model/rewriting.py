"""Cost model of rewrites: the gain that justifies replacing a plan, a reshard or a message."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.fields import chosen


@dataclass(frozen=True, eq=False)
class Resharding:
    """Parameters of the search for the cheapest sequence of collectives between two shardings of a value."""

    packing_seconds: float = chosen(
        4e-6, "s", "time to slice and concatenate the data for one more peer of a transfer", matters=True
    )


@dataclass(frozen=True, eq=False)
class Rewriting:
    """Rewritten programs that are equivalent to the user's.

    Costs are estimates, so the rewritten program must be clearly cheaper to be chosen.
    """

    worth: float = chosen(
        0.97,
        "ratio",
        "largest ratio of a rewritten program's time, or of its time on links, to that of the user's program",
        matters=False,
    )
    more_dots: float = chosen(
        1.05, "ratio", "largest ratio of its work in dots if only its time on links is shorter", matters=False
    )
    more_rows: float = chosen(
        3.0, "times", "largest ratio of its other work if only its time on links is shorter", matters=False
    )
    near: int = chosen(
        8, "part", "a shift by at most one in so many rows of a frame counts as a halo exchange", matters=False
    )
    saved_seconds: float = chosen(
        64e-6, "s", "time that fewer collectives must save if they move or repeat more: eight latencies", matters=False
    )


@dataclass(frozen=True, eq=False)
class Messages:
    """Parameters of combining small collectives into one message, which costs copies to pack and unpack it."""

    share: float = chosen(1 / 8, "share", "share of the saved latency that copies may take in any case", matters=False)
    larger_share: float = chosen(
        1 / 2, "share", "share of the saved latency that copies may take if the step gets shorter", matters=False
    )
