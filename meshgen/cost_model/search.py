"""Cost model of searches: larger limits take more compile time and can find better plans."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.fields import chosen, known


@dataclass(frozen=True, eq=False)
class Search:
    """Limits of searches. Within its limits, each search finds the best solution of the cost model."""

    narrow_cells: int = chosen(
        1 << 12, "cells", "size up to which propagation tables are always joined first", matters=False
    )
    table_cells: int = chosen(
        1 << 16, "cells", "largest propagation table; beyond it, variables are fixed", matters=False
    )
    copy_cells: int = known(
        1 << 5, "cells", "largest table of a value and its uses that also chooses a shared copy",
        "derived: a producer, three users and a copy with two labels each, 2^5; larger tables are as fast with a variable for the copy",
    )  # fmt: skip
    strategies: int = known(
        400, "strategies", "most strategies of a site over all mesh axes in the sharding search",
        "derived: all strategies of an op with six loops over three axes, 7^3 = 343",
    )  # fmt: skip
    core_cells: int = known(
        1 << 15, "cells", "largest table for which the sharding search eliminates variables before it solves an integer program",
        "derived: a table of three ops with 32 strategies each; elimination loses nothing whatever its size",
    )  # fmt: skip
    refixed_rounds: int = chosen(24, "rounds", "rounds that reconsider fixed variables", matters=False)
    refixed_gain: float = chosen(1e-3, "share", "share of the cost that a round must save to continue", matters=False)
    axis_rounds: int = chosen(
        2, "rounds", "rounds over the mesh axes; in the first, later axes are undecided", matters=True
    )
    latencies: float = chosen(
        0.2,
        "share",
        "share of latencies in the estimated step above which a plan with fewer collectives is tried",
        matters=False,
    )
    repeated_seconds: float = chosen(
        16e-6,
        "s",
        "redundant work of an op along an axis above which its loops are split without an annotation: two latencies",
        matters=False,
    )
    nearest_moves: int = chosen(
        60, "moves", "moves of a reshard that are priced nearest to the target first", matters=False
    )
    cheapest_moves: int = chosen(
        600, "moves", "moves of a reshard that are priced before the search becomes greedy again", matters=False
    )
    all_moves: int = chosen(900, "moves", "most moves of a reshard that are priced", matters=False)
    looked_moves: int = chosen(6000, "moves", "most moves of a reshard that are considered", matters=False)
    least_moves: int = chosen(
        8, "moves", "moves of a reshard that are considered on any number of devices", matters=False
    )
    moved_devices: int = chosen(
        1 << 24, "devices", "total devices in the tables of the considered moves", matters=False
    )
    all_orders_of_copies: int = chosen(3, "copies", "most copies of a value whose orders are all tried", matters=True)
    chain: int = chosen(8, "nodes", "longest chain of nodes that a local rewrite walks", matters=False)
