"""One measurement of a collective: the call of each rank, its data, and the number of wrong result elements.

Sizes and factors are those of nccl-tests. In all_reduce, broadcast, reduce, all_to_all and sendrecv, `size` is the
number of bytes that one rank sends.
In all_gather and reduce_scatter it counts the bytes of all ranks together: their operands in all_gather, their results
in reduce_scatter.
busbw is algbw times the fraction of `size` that each link of a rank carries.
Source: github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from meshgen.ccl.simulated import reduce_arrays
from meshgen.ccl.steps import OPERAND, RESULT, Group, Lowered, Message, Messages, dense
from meshgen.ir.graph import DTYPES
from meshgen.mesh import Axis, Mesh

Array = np.ndarray[Any, Any]
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "sendrecv")
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
IN_PLACE = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
# Collectives for which nccl-tests counts the elements of one rank's shard.
_OF_PARTS = ("all_gather", "reduce_scatter", "all_to_all")
# The type and reduction names of nccl-tests, mapped to the names of meshgen.
TYPES: Mapping[str, str] = {
    "int8": "i8", "uint8": "ui8", "int32": "i32", "uint32": "ui32", "int64": "i64", "uint64": "ui64", "half": "f16", "float": "f32",
    "double": "f64", "bfloat16": "bf16",
}  # fmt: skip
OPS: Mapping[str, str] = {"sum": "sum", "prod": "product", "min": "min", "max": "max"}
# Mesh axes of each group name: all ranks, the ranks of one host, or one rank of each host.
GROUPS: Mapping[str, tuple[str, ...]] = {"all": ("host", "device"), "host": ("device",), "across": ("host",)}


def bus_factor(kind: str, ranks: int) -> float:
    """Return the factor from algbw to busbw: the bytes that each link of a rank carries, divided by `Case.size`."""
    match kind:
        case "all_reduce":
            return 2 * (ranks - 1) / ranks
        case "all_gather" | "reduce_scatter" | "all_to_all":
            return (ranks - 1) / ranks
        case _:
            return 1.0


class Layout(NamedTuple):
    """The number of ranks, and the number of ranks per host.

    Rank r runs on host r // per_host. `per_host` is 0 if the hosts do not have equal blocks of consecutive ranks.
    """

    ranks: int
    per_host: int

    @property
    def mesh(self) -> Mesh:
        inside = self.per_host or self.ranks
        return Mesh((Axis("host", self.ranks // inside), Axis("device", inside)))

    @property
    def groups(self) -> list[str]:
        """Return the names in `GROUPS` whose groups have several ranks. "host" and "across" are omitted if they equal
        "all".
        """
        hosts, inside = self.mesh.sizes
        return ["all", *["host", "across"] * (hosts > 1 and inside > 1)]


def layout_of(hosts: Sequence[str]) -> Layout:
    """Return the layout of the ranks, given the host name of each rank."""
    per_host = hosts.count(hosts[0])
    are_blocks = all(host == hosts[rank // per_host * per_host] for rank, host in enumerate(hosts)) and len(
        set(hosts)
    ) * per_host == len(hosts)
    return Layout(len(hosts), per_host if are_blocks else 0)


@dataclass(frozen=True)
class Case:
    """One measured collective, which all groups of the kind `group` execute at the same time.

    Attributes:
        kind: the collective, one of `KINDS`.
        count: number of elements as in nccl-tests: of one rank's shard for some kinds, of the whole operand for others.
        dtype: meshgen's name of the element type.
        reduction: meshgen's name of the reduction; empty for kinds without a reduction.
        group: kind of the groups, a key of `GROUPS`.
        ranks: number of ranks in one group.
        root: index of the root rank in its group.
    """

    kind: str
    count: int
    dtype: str
    reduction: str
    group: str
    ranks: int
    root: int = 0

    @property
    def size(self) -> int:
        """Return the size in bytes, as nccl-tests defines it."""
        return self.count * DTYPES[self.dtype].itemsize * (self.ranks if self.kind in _OF_PARTS else 1)

    @property
    def operand_count(self) -> int:
        return self.count * (self.ranks if self.kind in ("reduce_scatter", "all_to_all") else 1)

    @property
    def result_count(self) -> int:
        return self.count * (self.ranks if self.kind in ("all_gather", "all_to_all") else 1)

    @property
    def has_results(self) -> bool:
        return self.kind != "reduce"

    def offsets(self, member: int) -> tuple[int, int]:
        """Return the indices of the first element of the operand and of the result of rank `member` in the one buffer
        of an in-place call.
        """
        start = member * self.count
        return start * (self.kind == "all_gather"), start * (self.kind == "reduce_scatter")


def case_of(kind: str, size: int, dtype: str, reduction: str, group: str, ranks: int, root: int) -> Case:
    """Return the case with the most elements that fit into `size` bytes, but at least one element per rank."""
    count = size // DTYPES[dtype].itemsize // (ranks if kind in _OF_PARTS else 1)
    return Case(kind, max(count, 1), dtype, reduction if kind in REDUCING else "", group, ranks, root)


def lower_call(case: Case, mesh: Mesh, rank: int, in_place: bool) -> Lowered:
    """Return the call of one rank: the operand is in buffer `OPERAND`, the result in `RESULT` or, if `in_place`, in
    `OPERAND`.
    """
    axes = GROUPS[case.group]
    member = mesh.index(rank, axes)
    source, target = case.offsets(member) if in_place else (0, 0)
    operand_tile = dense(OPERAND, case.dtype, (case.operand_count,), source)
    result_tile = dense(OPERAND if in_place else RESULT, case.dtype, (case.result_count,), target)
    if case.kind == "sendrecv":
        members = next(group for group in mesh.groups(axes) if rank in group)
        after, before = members[(member + 1) % case.ranks], members[member - 1]
        return Lowered((Messages((Message(after, operand_tile),), (Message(before, result_tile),), axes),), 0)
    call = Group(case.kind, case.reduction, case.dtype, case.count, operand_tile, result_tile, axes, case.root)  # type: ignore[arg-type]
    return Lowered((call,), 0)


def random_operand(case: Case, member: int) -> Array:
    """Return the operand of rank `member` of the group: random small integers without 0, whose sums are exact in most
    types.
    """
    end = 3 if case.reduction == "product" else 8
    numbers = np.random.default_rng([member, case.operand_count]).integers(1, end, case.operand_count, np.uint8)
    return numbers.astype(DTYPES[case.dtype])


def expected_result(case: Case, member: int) -> Array | None:
    """Return the result of rank `member` of the group, or None if that rank has no result."""
    match case.kind:
        case "all_gather":
            return np.concatenate([random_operand(case, source) for source in range(case.ranks)])
        case "all_to_all":
            rows = (random_operand(case, source).reshape(case.ranks, -1)[member] for source in range(case.ranks))
            return np.concatenate(list(rows))
        case "broadcast":
            return random_operand(case, case.root)
        case "sendrecv":
            return random_operand(case, (member - 1) % case.ranks)
        case "reduce" if member != case.root:
            return None
        case _:
            total = reduce_arrays(
                [random_operand(case, source) for source in range(case.ranks)], case.reduction, case.dtype
            )
            return total.reshape(case.ranks, -1)[member] if case.kind == "reduce_scatter" else total


def count_wrong(case: Case, actual: Array, member: int) -> int:
    """Return the number of elements of `actual` that differ from the expected result.

    Reduced floats may differ by one rounding error per rank.
    """
    reference = expected_result(case, member)
    if reference is None:
        return 0
    same = actual.view(reference.dtype) == reference
    if case.reduction and reference.dtype.kind not in "iu":
        allowed = case.ranks * float(ml_dtypes.finfo(reference.dtype).eps) * np.abs(reference.astype(np.float64))
        with np.errstate(invalid="ignore"):
            same |= np.abs(actual.view(reference.dtype).astype(np.float64) - reference.astype(np.float64)) <= allowed
    return int(np.count_nonzero(~same))
