"""How far searches go: what they look at more costs time to compile and could find a better plan."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.fields import chosen, known


@dataclass(frozen=True, eq=False)
class Search:
    """Limits of searches. Within them each finds the best by the cost model."""

    narrow_cells: int = chosen(
        1 << 12, "cells", "of one table of propagation that is always made, before others are tried", matters=False
    )
    table_cells: int = chosen(
        1 << 16, "cells", "of one table of propagation at most; beyond, variables are fixed", matters=False
    )
    copy_cells: int = known(
        1 << 5, "cells", "of the table of a value and its uses within which a copy that they share is chosen",
        "derived: a maker, three users and a copy of two labels each, 2^5; larger ones are as fast with a variable for the copy",
    )  # fmt: skip
    strategies: int = known(
        400, "strategies", "of a site over all mesh axes that a search for shardings looks at",
        "derived: all of an op of six loops over three axes, 7^3 = 343",
    )  # fmt: skip
    core_cells: int = known(
        1 << 15, "cells", "of one table up to which such a search eliminates, before its integer program",
        "derived: a table of three ops with 32 strategies each; elimination loses nothing whatever its size",
    )  # fmt: skip
    refixed_rounds: int = chosen(24, "rounds", "in which fixed variables are looked at again", matters=False)
    refixed_gain: float = chosen(
        1e-3, "share", "of the cost that a round must save for another to follow", matters=False
    )
    axis_rounds: int = chosen(
        2, "rounds", "in which each mesh axis is decided: at first those behind it are unknown", matters=True
    )
    latencies: float = chosen(
        0.2,
        "share",
        "of the estimated step that is latencies, from which a plan with fewer collectives is tried",
        matters=False,
    )
    repeated_seconds: float = chosen(
        16e-6,
        "s",
        "of an op's work that an axis repeats, from which its loops are split without an annotation: two latencies",
        matters=False,
    )
    nearest_moves: int = chosen(60, "moves", "of a reshard priced from the ways nearest to the end", matters=False)
    cheapest_moves: int = chosen(
        600, "moves", "of a reshard priced before the search hurries to any end", matters=False
    )
    all_moves: int = chosen(900, "moves", "of a reshard priced at all", matters=False)
    looked_moves: int = chosen(6000, "moves", "of a reshard looked at", matters=False)
    least_moves: int = chosen(8, "moves", "of a reshard looked at on however many devices", matters=False)
    moved_devices: int = chosen(1 << 24, "devices", "in the tables of all moves that are looked at", matters=False)
    all_orders_of_copies: int = chosen(3, "copies", "of a value that are ordered by trying all ways", matters=True)
    chain: int = chosen(8, "nodes", "in a row that a local rewrite looks at", matters=False)
