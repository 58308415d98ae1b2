"""Cost model of propagation: seconds of traffic, of redundant work, and the weights of annotations."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.fields import chosen, known

_LEXICAL = "derived: larger than every cost of lower priority, smaller than every cost of higher priority"


@dataclass(frozen=True, eq=False)
class Propagation:
    """Costs of sharding along one mesh axis, in seconds. Propagation decides axis by axis.

    They estimate the time of a step: bytes on links and the work of a device. In the first solution, latencies of
    collectives only break ties, since many collectives overlap with others or are combined with them. If latencies turn
    out to be a large part of the planned step, the program is solved again with full latencies.

    Resharding an argument that the user sharded costs time in every step, so such an argument keeps its sharding unless
    that is much more expensive. Gathering an argument (ZeRO, FSDP) is common, changing its layout is not.
    """

    latency_seconds: float = chosen(
        1e-11,
        "s",
        "cost of a collective besides its bytes, in the first solution: of equal costs the fewest collectives win",
        matters=True,
    )
    slice_seconds: float = chosen(
        1e-12,
        "s",
        "cost of a slice or mask, which moves nothing: of equal costs the solution without it wins",
        matters=True,
    )
    gather_argument: float = chosen(1.1, "ratio", "weight of the bytes of gathering a placed argument", matters=True)
    relayout_argument: float = chosen(
        6.0, "times", "weight of the bytes of splitting a placed argument elsewhere", matters=False
    )
    same_edge: float = chosen(
        0.9,
        "ratio",
        "weight of a reshard along one axis if another axis is resharded on the same edge: both become one exchange",
        matters=True,
    )
    behind: float = known(
        1 + 1e-8,
        "ratio",
        "weight of a reshard after an annotation: of equal costs the reshard before it wins",
        "derived: breaks ties of sums in f64, whose spacing is 2e-16 of them",
    )
    hint_seconds: float = chosen(
        2e-6, "s", "benefit of a followed hint besides the traffic that it saves", matters=False
    )
    use_seconds: float = known(1e3, "s", "cost of a use that violates the annotation required for it", _LEXICAL)
    forbidden_seconds: float = known(
        1e6, "s", "cost of a forbidden choice: finite, so that conflicts still have a best solution", _LEXICAL
    )
    narrow_flops_per_second: float = chosen(
        200e12, "FLOP/s", "rate of redundant dots of types narrower than f32: a fifth of an H100's peak, as for small kernels",
        matters=True,
    )  # fmt: skip
    tf32_flops_per_second: float = chosen(
        100e12, "FLOP/s", "rate of redundant f32 dots that are multiplied as tf32: a fifth of an H100's peak, as for small kernels",
        matters=True,
    )  # fmt: skip
    wide_flops_per_second: float = chosen(
        30e12,
        "FLOP/s",
        "rate of redundant dots of f64 and of f32 with higher precision: half of an H100's peak, as for small kernels",
        matters=False,
    )
    bytes_per_second: float = chosen(
        20e12, "bytes/s", "rate of other redundant work: four times the memory bandwidth of an H200, because most of it is fused",
        matters=True,
    )  # fmt: skip
    product_bytes_per_second: float = chosen(
        2.5e12, "bytes/s", "rate of reading operands of redundant dots: three quarters of an H100's memory bandwidth, because reads of weights cannot be fused",
        matters=True,
    )  # fmt: skip
    other_flops_per_second: float = chosen(
        15e12,
        "FLOP/s",
        "rate of redundant arithmetic outside of dots: a quarter of an H100's f32 peak, as for small kernels",
        matters=False,
    )
    held_seconds: float = known(
        2.7e-15, "s/byte", "cost of an argument's or a result's bytes in a sharding search: of equal costs the least memory wins",
        "derived: a thousandth of the time of a byte over NVLink 4 (370 GB/s)",
    )  # fmt: skip
    unknown_trips: float = chosen(8.0, "trips", "assumed trip count of a loop with unknown trip count", matters=True)
    nominal_size: int = known(
        2, "devices", "assumed size of a mesh axis of unknown size", "derived: the smallest size that splits a dim"
    )
