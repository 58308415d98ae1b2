"""`Site`: an op under type inference or verification, with its faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from meshgen.errors import Diagnostic, Location
from meshgen.ir.graph import Graph, TensorType, is_complex, is_float, is_inexact

Shape = tuple[int | None, ...]
Inference = Callable[["Site"], "list[TensorType] | None"]


@dataclass
class Site:
    """An op under type inference or verification. A check adds faults to `faults`, and later checks still run if
    possible.

    Attributes:
        results: the declared result types, or None during inference.
        manual: the axes of the manual computations that enclose the op.
    """

    op: str
    attrs: Any  # an `Attributes` of the op's class
    operands: Sequence[TensorType]
    regions: Sequence[Graph] = ()
    results: Sequence[TensorType] | None = None
    loc: Location | None = None
    faults: list[Diagnostic] = field(default_factory=list)
    manual: tuple[str, ...] = ()

    def fault(self, message: str, hint: str = "") -> None:
        self.faults.append(Diagnostic("MG0104", f"'{self.op}': {message}", self.loc, hint=hint))

    def require(self, holds: bool, message: str, hint: str = "") -> bool:
        """Record a fault unless `holds`. Returns `holds`."""
        if not holds:
            self.fault(message, hint)
        return holds

    def ints(self, name: str) -> tuple[int, ...]:
        return tuple(getattr(self.attrs, name))

    def unique_dims(self, name: str, rank: int) -> bool:
        """Whether attribute `name` lists distinct dims of a tensor of rank `rank`. Records a fault otherwise."""
        dims = self.ints(name)
        invalid = [d for d in dims if not 0 <= d < rank]
        return self.require(
            not invalid, f"{name} {list(dims)} names dim {invalid[0] if invalid else 0}, but the rank is {rank}"
        ) and self.require(len(set(dims)) == len(dims), f"{name} {list(dims)} names a dim twice")

    def one_dim(self, name: str, rank: int) -> bool:
        """Whether attribute `name` is a dim of a tensor of rank `rank`. Records a fault otherwise."""
        dim = getattr(self.attrs, name)
        return self.require(0 <= dim < rank, f"{name} {dim} is out of range for a tensor of rank {rank}")

    def lengths(self, rank: int, *names: str) -> bool:
        """Whether each of the attributes `names` has `rank` entries. Records a fault otherwise."""
        is_valid = True
        for name in names:
            count = len(self.ints(name))
            is_valid &= self.require(count == rank, f"{name} has {count} entries, but the rank is {rank}")
        return is_valid

    def is_sorted(self, name: str) -> bool:
        """Whether the entries of attribute `name` are strictly increasing. Records a fault otherwise."""
        entries = self.ints(name)
        return self.require(all(a < b for a, b in pairwise(entries)), f"{name} {list(entries)} is not sorted")

    def apart(self, name: str, other: str) -> bool:
        """Whether the dims in attributes `name` and `other` are disjoint. Records a fault otherwise."""
        shared_dims = sorted(set(self.ints(name)) & set(self.ints(other)))
        return self.require(not shared_dims, f"{name} and {other} share dim {shared_dims[0] if shared_dims else 0}")

    def region_count(self, count: int) -> bool:
        return self.require(len(self.regions) == count, f"has {len(self.regions)} regions instead of {count}")

    def region(self, index: int, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
        """Whether region `index` has the input types `inputs` and the output types `outputs`. Records a fault
        otherwise.
        """
        region, is_valid = self.regions[index], True
        for verb, values, expected in (("takes", region.inputs, inputs), ("returns", region.outputs, outputs)):
            types = [value.type for value in values]
            same = len(types) == len(expected) and all(types_agree(a, b) for a, b in zip(types, expected, strict=True))
            is_valid &= self.require(same, f"region {index} {verb} ({_text(types)}) instead of ({_text(expected)})")
        return is_valid

    def same_dtype(self, types: Iterable[TensorType]) -> bool:
        """Whether all types have the same element type. Records a fault otherwise."""
        names = [t.dtype for t in types]
        return self.require(
            all(n == names[0] for n in names), f"the operands differ in element type: {', '.join(names)}",
            "insert a convert",
        )  # fmt: skip

    def dtype_in(self, type_: TensorType, family: str) -> bool:
        """Whether the element type belongs to `family`: float, inexact (float or complex), integer, logical (integer or
        i1), ...

        Records a fault otherwise.
        """
        is_member = {
            "float": is_float(type_.dtype),
            "inexact": is_inexact(type_.dtype),
            "complex": is_complex(type_.dtype),
            "integer": not is_inexact(type_.dtype) and type_.dtype != "i1",
            "logical": not is_inexact(type_.dtype),
            "ordered": not is_complex(type_.dtype),
            "number": type_.dtype != "i1",
            "real": type_.dtype != "i1" and not is_complex(type_.dtype),
            "any": True,
        }[family]
        description = "float or complex" if family == "inexact" else family
        return self.require(is_member, f"element type {type_.dtype} is not {description}")


def agree(left: int | None, right: int | None) -> bool:
    """Whether two sizes may be equal. An unknown size (None) may equal any size."""
    return left is None or right is None or left == right


def _text(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types))


def types_agree(left: TensorType, right: TensorType) -> bool:
    return left.dtype == right.dtype and shapes_agree(left.shape, right.shape)


def shapes_agree(left: Shape, right: Shape) -> bool:
    return len(left) == len(right) and all(agree(a, b) for a, b in zip(left, right, strict=True))


def known(left: Shape, right: Shape) -> Shape:
    """Return the merged sizes of two shapes that agree. A size is unknown only if it is unknown in both."""
    return tuple(b if a is None else a for a, b in zip(left, right, strict=True))


def product(sizes: Iterable[int | None]) -> int | None:
    """Return the number of elements, or None if a size is unknown (0 if any size is 0)."""
    total: int | None = 1
    for size in sizes:
        if size == 0:
            return 0
        total = None if size is None or total is None else total * size
    return total
