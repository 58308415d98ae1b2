"""What propagation weighs: seconds of traffic against work that is repeated, and what annotations are worth."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.fields import chosen, known

_LEXICAL = "derived: larger than every cost that it goes before, smaller than what goes before it"


@dataclass(frozen=True, eq=False)
class Propagation:
    """Costs of one mesh axis at a time, in seconds.

    They estimate the time of a step: bytes on links and the work of a device. Latencies of collectives decide between equals at first,
    as many run beside others, or become one message with them; where they turn out to be a large part of the planned step, the program
    is solved with them too. Arguments that the user placed are moved on every step, so they stay where they are unless that costs
    much more: gathering one (ZeRO, FSDP) is usual, changing its layout is not.
    """

    latency_seconds: float = chosen(
        1e-11, "s", "a collective, besides its bytes, at first: fewer of them, between equals", matters=True
    )
    slice_seconds: float = chosen(
        1e-12, "s", "a slice or a mask, which moves nothing: none, between equals", matters=True
    )
    gather_argument: float = chosen(1.1, "ratio", "weight of the bytes of gathering a placed argument", matters=True)
    relayout_argument: float = chosen(
        6.0, "times", "weight of the bytes of splitting a placed argument elsewhere", matters=False
    )
    same_edge: float = chosen(
        0.9,
        "ratio",
        "weight of a reshard along one axis where another is resharded too: both are one exchange",
        matters=True,
    )
    behind: float = known(
        1 + 1e-8,
        "ratio",
        "weight of a reshard behind an annotation: of equals the one in front of it",
        "derived: breaks ties of sums in f64, whose spacing is 2e-16 of them",
    )
    hint_seconds: float = chosen(2e-6, "s", "keeping a hint, on top of the traffic that it saves", matters=False)
    use_seconds: float = known(1e3, "s", "a use that reads a value otherwise than is required for it", _LEXICAL)
    forbidden_seconds: float = known(
        1e6, "s", "a choice that is not allowed: finite, so that one is least bad", _LEXICAL
    )
    narrow_flops_per_second: float = chosen(
        200e12, "FLOP/s", "repeated dots of types narrower than f32: a fifth of an H100's peak, as small kernels reach it",
        matters=True,
    )  # fmt: skip
    tf32_flops_per_second: float = chosen(
        100e12, "FLOP/s", "repeated dots of f32 that are multiplied as tf32: a fifth of an H100's peak, as small kernels reach it",
        matters=True,
    )  # fmt: skip
    wide_flops_per_second: float = chosen(
        30e12,
        "FLOP/s",
        "repeated dots of f64 and of f32 in more precision: half of an H100's peak, as small kernels reach it",
        matters=False,
    )
    bytes_per_second: float = chosen(
        20e12, "bytes/s", "other repeated work: four times the memory of an H200, as most of it is fused away",
        matters=True,
    )  # fmt: skip
    product_bytes_per_second: float = chosen(
        2.5e12, "bytes/s", "operands of repeated dots: three quarters of an H100's memory, as nothing fuses the reads of weights away",
        matters=True,
    )  # fmt: skip
    other_flops_per_second: float = chosen(
        15e12,
        "FLOP/s",
        "repeated arithmetic outside of dots: a quarter of an H100's f32 peak, as small kernels reach it",
        matters=False,
    )
    held_seconds: float = known(
        2.7e-15, "s/byte", "an argument's or a result's bytes on a device, in a search: less memory, between equals",
        "derived: a thousandth of what a byte takes over NVLink 4 (370 GB/s)",
    )  # fmt: skip
    unknown_trips: float = chosen(8.0, "trips", "a loop whose trip count cannot be read off", matters=True)
    nominal_size: int = known(2, "devices", "a mesh axis of unknown size", "derived: the least that splits anything")
