"""Cost model of code generation: limits of fused kernels, chunks of collectives, and the order of launches."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.fields import chosen, known


@dataclass(frozen=True, eq=False)
class Fusion:
    """Limits on fused kernels and on recomputation.

    Small enough kernels build quickly and keep their tiles in registers. Recomputation saves memory traffic.
    """

    members: int = chosen(160, "nodes", "most nodes in a fused kernel", matters=True)
    nodes_in_a_row: int = chosen(2048, "nodes", "longest dependence chain in a fused kernel", matters=False)
    inputs: int = chosen(24, "values", "most inputs of a fused kernel", matters=False)
    epilogue_nodes: int = chosen(64, "nodes", "most nodes in the epilogue of a dot", matters=False)
    epilogue_outputs: int = chosen(
        6, "values", "most outputs of a dot kernel: registers hold a tile of each", matters=False
    )
    siblings: int = chosen(8, "dots", "most dots with a common left operand in a kernel", matters=False)
    large_elements: int = chosen(
        1 << 16,
        "elements",
        "size above which a group accepts a reduction only if it has enough parallel rows",
        matters=False,
    )
    least_programs: int = chosen(64, "rows", "fewest rows of a reduction that joins a large group", matters=False)
    tiny_bytes: int = chosen(
        4096, "bytes", "largest value that several readers recompute to save a kernel launch", matters=False
    )
    big_bytes: int = chosen(
        1 << 16, "bytes", "smallest single value that readers recompute to save memory traffic", matters=False
    )
    recipe_nodes: int = chosen(16, "nodes", "most nodes that recompute a value", matters=True)
    smaller: int = chosen(
        16,
        "times",
        "factor by which an intermediate is smaller than the recomputed value if it is read from memory instead of recomputed",
        matters=False,
    )
    table: int = chosen(
        64,
        "times",
        "factor by which a recomputed value is smaller than the memory traffic of its reader",
        matters=False,
    )
    loads: int = known(
        24,
        "loads",
        "most loads of a kernel per element of a value that is recomputed at several indices",
        "a Mamba block of 1,024 steps built for sm_90: its forward kernels issue instructions for 4.6 ms with 24 and with 32, and for 18 ms with 6,636 bytes spilled without a limit",
    )
    window_elements: int = chosen(
        32, "elements", "largest window that a kernel reads element by element", matters=False
    )
    unordered_updates: int = chosen(
        32,
        "updates",
        "most updates of a scatter that each result element compares with its index; more updates are sorted",
        matters=False,
    )
    ranked_updates: int = known(
        4096, "updates", "most updates of a scatter into few rows that are sorted by comparing all pairs", "derived: an H100 compares them with each other in 2.7 us, about the time of a launch"
    )  # fmt: skip
    unrolled_nodes: int = chosen(512, "nodes", "most nodes of an unrolled element-wise loop", matters=False)
    unrolled_messages: int = chosen(
        1536, "nodes", "most nodes of an unrolled loop with collectives; more take long to schedule", matters=False
    )
    sibling_bytes: int = known(
        5_000_000, "bytes", "largest memory traffic of a small kernel that is merged into another launch", "derived: what an H100 moves in the 2 us of a launch, at the part of its peak that kernels reach"
    )  # fmt: skip
    segment_pointers: int = known(
        480, "pointers", "most pointer arguments of a kernel", "CUDA C++ programming guide: 4 KB of parameters on all devices, 8 bytes each, with some left for coordinates"
    )  # fmt: skip
    programs: int = known(
        256, "programs", "programs that keep a device busy", "derived: two per multiprocessor of an H100"
    )
    split_least: int = chosen(64, "elements", "fewest elements per part of a split reduction", matters=False)
    split_bytes: int = chosen(
        1 << 18,
        "bytes",
        "smallest operand of a reduction that is split if it uses less than a quarter of the device",
        matters=False,
    )
    split_big_bytes: int = chosen(
        1 << 22,
        "bytes",
        "smallest operand of a reduction that is split if it does not use the entire device",
        matters=False,
    )
    summed_elements: int = known(
        16384, "elements", "most accumulated elements in the registers of a program, which holds two such tiles", "derived: a quarter of the 65,536 registers of a multiprocessor"
    )  # fmt: skip
    scanned_row: int = known(
        1024, "elements", "most elements that an iteration of a recurrence reduces", "derived: those of a block of 256 threads with 4 registers for each value"
    )  # fmt: skip
    split_product_k: int = known(
        256, "elements", "smallest extent of k per part of a split-K GEMM", "derived: two steps of the longest tiles"
    )
    same_product: float = known(
        1.05, "ratio", "predicted times of split-K GEMMs within this ratio count as equal; the fewest parts win",
        "measured: seven of the nine predictions of `python -m bench.products` are within 5 %",
    )  # fmt: skip
    split_columns: int = chosen(
        64, "elements", "elements per program of a reduction whose kept dim is contiguous in memory", matters=False
    )


@dataclass(frozen=True, eq=False)
class Chunks:
    """Parameters of splitting collectives into chunks that overlap with compute."""

    counts: tuple[int, ...] = known(
        (2, 4, 8),
        "chunks",
        "numbers of chunks that are tried",
        "derived: each doubling hides half of what the one before left exposed",
    )
    gain: float = known(0.02, "share", "share of the step that chunks must save", "derived: `scheduling.same_step` - 1")


@dataclass(frozen=True, eq=False)
class Scheduling:
    """Limits of the search for an order of launches on the streams of a step."""

    same_step: float = chosen(1.02, "ratio", "predicted steps within this ratio count as equal", matters=True)
    perturbed: int = chosen(
        12, "orders", "orders with perturbed priorities that are tried for a program in chunks", matters=True
    )
    justified: int = chosen(
        3, "orders", "shortest orders that are improved by forward-backward scheduling", matters=True
    )
    spread: float = chosen(
        0.3, "share", "standard deviation of perturbed priorities, relative to the path length", matters=True
    )
    capped: int = chosen(3, "orders", "best orders without a memory limit that are tried with the limit", matters=True)
    cap_shares: tuple[float, ...] = chosen(
        (1.2, 1.1, 1.05, 1.0, 0.95, 0.9), "share",
        "shares of the memory limit that are tried as budgets: estimates exceed the live bytes, and buffers leave gaps", matters=True,
    )  # fmt: skip
