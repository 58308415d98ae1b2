"""The collectives of the shard dialect that are plain: their operations, their nodes, and what both have."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.shard import BroadcastOp, GatherOp, RecvOp, ReductionKind, ScatterOp, SendOp
from xdsl.ir import Operation

from meshgen.mlir.shard.collective_ops import (
    AllGatherOp,
    AllReduceOp,
    AllSliceOp,
    AllToAllOp,
    ReduceOp,
    ReduceScatterOp,
    ToPartialOp,
)

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

    cls: type[Operation]
    op: str
    dims: tuple[tuple[str, str], ...] = ()
    reduces: bool = False
    root: tuple[str, str] | None = None


SPECS = (
    Spec(AllGatherOp, "all_gather", (("gather_axis", "dim"),)),
    Spec(AllSliceOp, "all_slice", (("slice_axis", "dim"),)),
    Spec(AllReduceOp, "all_reduce", reduces=True),
    Spec(ReduceScatterOp, "reduce_scatter", (("scatter_axis", "dim"),), reduces=True),
    Spec(AllToAllOp, "all_to_all", (("split_axis", "split_dim"), ("concat_axis", "concat_dim"))),
    Spec(ToPartialOp, "to_partial", reduces=True),
    Spec(BroadcastOp, "broadcast", root=("root", "root")),
    Spec(GatherOp, "gather_to", (("gather_axis", "dim"),), root=("root", "root")),
    Spec(ReduceOp, "reduce_to", reduces=True, root=("root", "root")),
    Spec(ScatterOp, "scatter_from", (("scatter_axis", "dim"),), root=("root", "root")),
    Spec(SendOp, "send", root=("destination", "destination")),
    Spec(RecvOp, "recv", root=("source", "source")),
)
