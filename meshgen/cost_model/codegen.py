"""When nodes form a kernel, collectives run in chunks, and orders of launches are equal."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.fields import chosen, known


@dataclass(frozen=True, eq=False)
class Fusion:
    """Bounds on what a kernel takes in, so that it builds quickly and its tiles stay in registers; arithmetic against traffic."""

    members: int = chosen(160, "nodes", "of a kernel", matters=True)
    nodes_in_a_row: int = chosen(2048, "nodes", "of a kernel each of which needs the one before", matters=False)
    inputs: int = chosen(24, "values", "that a kernel reads", matters=False)
    epilogue_nodes: int = chosen(64, "nodes", "after a dot in its kernel", matters=False)
    epilogue_outputs: int = chosen(
        6, "values", "that a dot's kernel writes: a tile of each is in registers", matters=False
    )
    siblings: int = chosen(8, "dots", "of one left operand in a kernel", matters=False)
    large_elements: int = chosen(
        1 << 16, "elements", "of a group that needs parallel rows to take a reduction in", matters=False
    )
    least_programs: int = chosen(64, "rows", "of a reduction that takes a large group along", matters=False)
    tiny_bytes: int = chosen(
        4096, "bytes", "that several readers compute again rather than one kernel launches for", matters=False
    )
    big_bytes: int = chosen(1 << 16, "bytes", "from which single values are computed again", matters=False)
    recipe_nodes: int = chosen(16, "nodes", "that compute a value again", matters=True)
    smaller: int = chosen(
        16, "times", "by which a value is smaller that is kept rather than computed again", matters=False
    )
    table: int = chosen(64, "times", "by which a table is smaller than what its reader moves", matters=False)
    loads: int = known(
        24,
        "loads",
        "of a kernel for one element of a value, which it may compute from others at several indices",
        "built for sm_90, a Mamba block of 1,024 steps: its forward kernels issue instructions for 4.6 ms with 24 and with 32, and where values are computed again without a limit for 18 ms, with 6,636 bytes spilled",
    )
    window_elements: int = chosen(32, "elements", "of a window that a kernel reads one by one", matters=False)
    unordered_updates: int = chosen(
        32, "updates", "of a scatter that each element of the result looks at: more are sorted", matters=False
    )
    ranked_updates: int = known(
        4096, "updates", "of a scatter into few rows, up to which they are sorted", "derived: an H100 compares them with each other in 2.7 us, about the time of a launch"
    )  # fmt: skip
    unrolled_nodes: int = chosen(512, "nodes", "of an element-wise loop that is written out", matters=False)
    unrolled_messages: int = chosen(
        1536, "nodes", "of a loop that communicates and is written out: more take long to schedule", matters=False
    )
    sibling_bytes: int = known(
        5_000_000, "bytes", "that a small kernel moves, which another one takes along", "derived: what an H100 moves in the 2 us of a launch, at the part of its peak that kernels reach"
    )  # fmt: skip
    segment_pointers: int = known(
        480, "pointers", "that a kernel is given", "CUDA C++ programming guide: 4 KB of parameters on all devices, 8 bytes each, with some left for coordinates"
    )  # fmt: skip
    programs: int = known(256, "programs", "that fill a device", "derived: two per multiprocessor of an H100")
    split_least: int = chosen(64, "elements", "that each part of a split reduction reduces", matters=False)
    split_bytes: int = chosen(
        1 << 18,
        "bytes",
        "of an operand from which a reduction is split that fills less than a quarter of the device",
        matters=False,
    )
    split_big_bytes: int = chosen(
        1 << 22,
        "bytes",
        "of an operand from which a reduction is split that fills less than all of the device",
        matters=False,
    )
    summed_elements: int = known(
        16384, "elements", "of sums of rows in the registers of a program, which has room for two", "derived: a quarter of the 65,536 registers of a multiprocessor"
    )  # fmt: skip
    scanned_row: int = known(
        1024, "elements", "that each trip of a recurrence reduces", "derived: those of a block of 256 threads with 4 registers for each value"
    )  # fmt: skip
    split_product_k: int = known(
        256, "elements", "of k, at least, of each part of a split product", "derived: two steps of the longest tiles"
    )
    same_product: float = known(
        1.05, "ratio", "of predicted times of a product up to which they are equal: it has the fewest parts of these",
        "measured: seven of the nine predictions of `python -m bench.products` are within 5 %",
    )  # fmt: skip
    split_columns: int = chosen(
        64, "elements", "kept per program where memory is contiguous along a kept dim", matters=False
    )


@dataclass(frozen=True, eq=False)
class Chunks:
    """Collectives in chunks."""

    counts: tuple[int, ...] = known(
        (2, 4, 8), "chunks", "that are tried", "derived: each doubling hides half of what the one before left exposed"
    )
    gain: float = known(0.02, "share", "of the step that chunks must save", "derived: `scheduling.same_step` - 1")


@dataclass(frozen=True, eq=False)
class Scheduling:
    """Orders of launches on the streams of a step."""

    same_step: float = chosen(1.02, "ratio", "of predicted steps up to which they are equal", matters=True)
    perturbed: int = chosen(12, "orders", "with perturbed priorities, of a program in chunks", matters=True)
    justified: int = chosen(
        3, "orders", "shortest ones that are improved from the end and from the beginning", matters=True
    )
    spread: float = chosen(
        0.3, "share", "of a path by which its priority is perturbed, one standard deviation", matters=True
    )
    capped: int = chosen(3, "orders", "best ones without a limit of memory that are tried with one", matters=True)
    cap_shares: tuple[float, ...] = chosen(
        (1.2, 1.1, 1.05, 1.0, 0.95, 0.9), "share",
        "of the limit of memory as budgets: not all that is foreseen is alive at once, and buffers leave gaps", matters=True,
    )  # fmt: skip
