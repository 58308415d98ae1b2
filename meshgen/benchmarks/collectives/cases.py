"""One measurement of a collective: what is called on which ranks, the data, and how many elements of a result are wrong.

Sizes and factors are nccl-tests': `size` is what a rank sends in all_reduce, broadcast, reduce, all_to_all and sendrecv, and what all
ranks together give (all_gather) or get (reduce_scatter); busbw is algbw times the factor with which a rank's links are used.
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
_OF_PARTS = ("all_gather", "reduce_scatter", "all_to_all")  # whose count is that of one rank's part
# nccl-tests' names of types and reductions, and ours
TYPES: Mapping[str, str] = {
    "int8": "i8", "uint8": "ui8", "int32": "i32", "uint32": "ui32", "int64": "i64", "uint64": "ui64", "half": "f16", "float": "f32",
    "double": "f64", "bfloat16": "bf16",
}  # fmt: skip
OPS: Mapping[str, str] = {"sum": "sum", "prod": "product", "min": "min", "max": "max"}
# Which ranks form a group: all of them, those of a host, or one of each host
GROUPS: Mapping[str, tuple[str, ...]] = {"all": ("host", "device"), "host": ("device",), "across": ("host",)}


def bus_factor(kind: str, ranks: int) -> float:
    """Bytes that a rank's link carries, over the size."""
    match kind:
        case "all_reduce":
            return 2 * (ranks - 1) / ranks
        case "all_gather" | "reduce_scatter" | "all_to_all":
            return (ranks - 1) / ranks
        case _:
            return 1.0


class Layout(NamedTuple):
    """All ranks, and how many of them are on each host: rank / per_host is the host's number. 0: hosts have no equal blocks of ranks."""

    ranks: int
    per_host: int

    @property
    def mesh(self) -> Mesh:
        inside = self.per_host or self.ranks
        return Mesh((Axis("host", self.ranks // inside), Axis("device", inside)))

    @property
    def groups(self) -> list[str]:
        """The names of `GROUPS` that have several ranks, and differ from all of them."""
        hosts, inside = self.mesh.sizes
        return ["all", *["host", "across"] * (hosts > 1 and inside > 1)]


def layout_of(hosts: Sequence[str]) -> Layout:
    """From the host of each rank."""
    per_host = hosts.count(hosts[0])
    are_blocks = all(host == hosts[n // per_host * per_host] for n, host in enumerate(hosts)) and len(
        set(hosts)
    ) * per_host == len(hosts)
    return Layout(len(hosts), per_host if are_blocks else 0)


@dataclass(frozen=True)
class Case:
    """A collective in all groups of a kind at once.

    Attributes:
        count: elements as nccl-tests counts: of a rank's part, or of the whole operand.
        dtype, reduction: our names; the latter is empty where nothing is reduced.
        ranks: of a group.
        root: number in the group.
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
        """Bytes, as nccl-tests has them."""
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
        """Where operand and result of a member of the group begin in one buffer for both."""
        start = member * self.count
        return start * (self.kind == "all_gather"), start * (self.kind == "reduce_scatter")


def case_of(kind: str, size: int, dtype: str, reduction: str, group: str, ranks: int, root: int) -> Case:
    """The case of at most so many bytes, and at least one element of each rank."""
    count = size // DTYPES[dtype].itemsize // (ranks if kind in _OF_PARTS else 1)
    return Case(kind, max(count, 1), dtype, reduction if kind in REDUCING else "", group, ranks, root)


def lowered(case: Case, mesh: Mesh, rank: int, in_place: bool) -> Lowered:
    """The call of one rank, with its operand in buffer `OPERAND` and the result there too (`in_place`) or in `RESULT`."""
    axes = GROUPS[case.group]
    member = mesh.index(rank, axes)
    source, target = case.offsets(member) if in_place else (0, 0)
    given = dense(OPERAND, case.dtype, (case.operand_count,), source)
    made = dense(OPERAND if in_place else RESULT, case.dtype, (case.result_count,), target)
    if case.kind == "sendrecv":
        members = next(group for group in mesh.groups(axes) if rank in group)
        after, before = members[(member + 1) % case.ranks], members[member - 1]
        return Lowered((Messages((Message(after, given),), (Message(before, made),), axes),), 0)
    call = Group(case.kind, case.reduction, case.dtype, case.count, given, made, axes, case.root)  # type: ignore[arg-type]
    return Lowered((call,), 0)


def operand(case: Case, member: int) -> Array:
    """What a member of a group gives: random small integers, none of them 0, of which sums are exact in most types."""
    most = 3 if case.reduction == "product" else 8
    numbers = np.random.default_rng([member, case.operand_count]).integers(1, most, case.operand_count, np.uint8)
    return numbers.astype(DTYPES[case.dtype])


def expected(case: Case, member: int) -> Array | None:
    """What a member of a group gets; None where it gets nothing."""
    match case.kind:
        case "all_gather":
            return np.concatenate([operand(case, each) for each in range(case.ranks)])
        case "all_to_all":
            rows = (operand(case, each).reshape(case.ranks, -1)[member] for each in range(case.ranks))
            return np.concatenate(list(rows))
        case "broadcast":
            return operand(case, case.root)
        case "sendrecv":
            return operand(case, (member - 1) % case.ranks)
        case "reduce" if member != case.root:
            return None
        case _:
            total = reduce_arrays([operand(case, each) for each in range(case.ranks)], case.reduction, case.dtype)
            return total.reshape(case.ranks, -1)[member] if case.kind == "reduce_scatter" else total


def wrong(case: Case, got: Array, member: int) -> int:
    """How many elements differ from what is expected: of reduced floats by more than one rounding per rank."""
    want = expected(case, member)
    if want is None:
        return 0
    same = got.view(want.dtype) == want
    if case.reduction and want.dtype.kind not in "iu":
        allowed = case.ranks * float(ml_dtypes.finfo(want.dtype).eps) * np.abs(want.astype(np.float64))
        with np.errstate(invalid="ignore"):
            same |= np.abs(got.view(want.dtype).astype(np.float64) - want.astype(np.float64)) <= allowed
    return int(np.count_nonzero(~same))
