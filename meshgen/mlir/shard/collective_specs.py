"""The collectives of the shard dialect that are plain: their operations, their nodes, and what both have."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.shard import ReductionKind

KINDS = {
    ReductionKind.SUM: "sum",
    ReductionKind.MAX: "max",
    ReductionKind.MIN: "min",
    ReductionKind.PRODUCT: "product",
    ReductionKind.BITWISE_AND: "and",
    ReductionKind.BITWISE_OR: "or",
    ReductionKind.BITWISE_XOR: "xor",
}
KIND_NAMES = {name: kind for kind, name in KINDS.items()}
OF_SIZE = {ReductionKind.AVERAGE: "sum"}  # an average is a sum divided by the group's size


class Spec(NamedTuple):
    """A collective over `axes`: its operation, its node, and what else it has.

    Attributes:
        dims: (property, attribute) of tensor dims.
        root: (property, attribute) of a device's place in its group.
    """

    name: str
    op: str
    dims: tuple[tuple[str, str], ...] = ()
    reduces: bool = False
    root: tuple[str, str] | None = None


SPECS = (
    Spec("shard.all_gather", "all_gather", (("gather_axis", "dim"),)),
    Spec("shard.all_slice", "all_slice", (("slice_axis", "dim"),)),
    Spec("shard.all_reduce", "all_reduce", reduces=True),
    Spec("shard.reduce_scatter", "reduce_scatter", (("scatter_axis", "dim"),), reduces=True),
    Spec("shard.all_to_all", "all_to_all", (("split_axis", "split_dim"), ("concat_axis", "concat_dim"))),
    Spec("shard.to_partial", "to_partial", reduces=True),
    Spec("shard.broadcast", "broadcast", root=("root", "root")),
    Spec("shard.gather", "gather_to", (("gather_axis", "dim"),), root=("root", "root")),
    Spec("shard.reduce", "reduce_to", reduces=True, root=("root", "root")),
    Spec("shard.scatter", "scatter_from", (("scatter_axis", "dim"),), root=("root", "root")),
    Spec("shard.send", "send", root=("destination", "destination")),
    Spec("shard.recv", "recv", root=("source", "source")),
)
