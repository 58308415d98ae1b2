"""What the names of a program hold, where operations change tensors in place.

PyTorch's tensors may be views of others: `x[:, 0].add_(1)` changes x. Tensors of a graph are values, so a write to a view becomes a new
value of what it is a view of, and other views are computed again when they are read next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from meshgen.frontend.torch.ops import indexing
from meshgen.frontend.torch.ops.elementwise import complex_, view_as_complex, view_as_real
from meshgen.frontend.torch.ops.shapes import adjoint
from meshgen.frontend.torch.ops.strided import as_strided_scatter
from meshgen.frontend.tracer.elementwise import imag, real
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import moveaxis, reshape, swapaxes, transpose
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.records import dataclass

Written = Callable[
    ..., Tensor
]  # of the viewed tensor, the view's new value and the arguments of the view: the viewed tensor's new value


def _permuted_back(_x: Tensor, new: Tensor, dims: Sequence[int]) -> Tensor:
    order = [dim % new.ndim for dim in dims]
    return transpose(new, [order.index(d) for d in range(new.ndim)])


def _as_before(x: Tensor, new: Tensor, *_: Any, **__: Any) -> Tensor:
    return reshape(new, x.shape)


def _split_written(x: Tensor, new: Tensor, dim: int, start: int, size: int) -> Tensor:
    return indexing.slice_scatter(x, new, dim, start, start + size)


# Operations that give views, and what a write to the view makes of the viewed tensor.
VIEWS: Mapping[str, Written] = {
    **dict.fromkeys(("view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as", "reshape_as", "alias", "detach"), _as_before),
    "select": lambda x, new, dim, index: indexing.select_scatter(x, new, dim, index),
    "slice": lambda x, new, dim=0, start=None, end=None, step=1: indexing.slice_scatter(x, new, dim, start, end, step),
    "narrow": lambda x, new, dim, start, length: _split_written(x, new, dim, start % x.shape[dim], length),
    "transpose": lambda _x, new, first, second: swapaxes(new, first, second),
    "permute": _permuted_back,
    **dict.fromkeys(("t", "numpy_T"), lambda _x, new: transpose(new)),
    "mT": lambda _x, new: swapaxes(new, -1, -2),
    "diagonal": lambda x, new, *args, **options: indexing.diagonal_scatter(x, new, *args, **options),
    "as_strided": lambda x, new, *args, **options: as_strided_scatter(x, new, *args, **options),
    "real": lambda x, new: complex_(new, imag(x)),
    "imag": lambda x, new: complex_(real(x), new),
    "view_as_real": lambda _x, new: view_as_complex(new),
    "view_as_complex": lambda _x, new: view_as_real(new),
    **dict.fromkeys(("movedim", "moveaxis"), lambda _x, new, source, destination: moveaxis(new, destination, source)),
    **dict.fromkeys(("adjoint", "mH", "H", "matrix_H"), lambda _x, new: adjoint(new)),
}  # fmt: skip
# Operations that give several views, rows along a dim one after the other, and those whose views cannot be written here.
SPLITS = ("unbind", "split", "split_with_sizes", "chunk", "tensor_split")
READ_ONLY = ("expand", "unfold", "broadcast_to", "expand_as")  # fmt: skip


def written_part(parts: Sequence[Tensor], number: int, is_row: bool, dim: int) -> Callable[[Tensor, Tensor], Tensor]:
    """What a write to one of several views makes of the viewed tensor: rows, or with `is_row` one row without its dim."""
    at = dim % (parts[0].ndim + is_row)
    if is_row:
        return lambda x, new: indexing.select_scatter(x, new, at, number)
    start = sum(each.shape[at] for each in parts[:number])
    return lambda x, new: indexing.slice_scatter(x, new, at, start, start + new.shape[at])


def refuse_write(_x: Tensor, _new: Tensor) -> Tensor:
    """Refuse a write to a view that is not of consecutive rows or another shape."""
    refuse("a write to a view of this kind is not supported", "write to a copy, with .clone()", "MG0103")


COPIES = ("clone", "_to_copy", "lift_fresh_copy", "copy")  # results that are the same value, but not the same memory


@dataclass
class _View:
    """A name whose tensor is a view: of which name, how it is computed and written, and its value for a version of what it views."""

    base: str
    read: Callable[[Tensor], Tensor]
    write: Callable[[Tensor, Tensor], Tensor]
    version: int


class Values:
    """Tensors and numbers by name."""

    def __init__(self, around: Mapping[str, Any] | None = None) -> None:
        self._held: dict[str, Any] = dict(around or {})
        self._views: dict[str, _View] = {}
        self._versions: dict[str, int] = {}

    def __getitem__(self, name: str) -> Any:
        view = self._views.get(name)
        if view is not None and view.version != self._version(view.base):
            self._held[name] = view.read(self[view.base])
            view.version = self._version(view.base)
        if name not in self._held:
            refuse(
                f"'{name}' is used, but the operation that defines it was read without this result",
                "report it",
                "MG0104",
            )
        return self._held[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._held[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def same(self, name: str, base: str) -> None:
        """The name is another one of the same tensor."""
        self.view(name, base, lambda x: x, lambda _x, new: new)

    def view(self, name: str, base: str, read: Callable[[Tensor], Tensor], write: Callable[[Tensor, Tensor], Tensor]) -> None:  # fmt: skip
        """The name is a view of the tensor of another one."""
        self._views[name] = _View(base, read, write, self._version(base))

    def change(self, name: str, value: Any) -> None:
        """The tensor of a name has a new value, as what it is a view of has, and what are views of that."""
        old = self[name]
        if not isinstance(value, Tensor) or not isinstance(old, Tensor):
            refuse(f"'{name}' is changed in place, but is not a tensor", "", "MG0103")
        value = convert(tensor(value), old.type.dtype)
        view = self._views.get(name)
        if view is not None:
            self.change(view.base, view.write(self[view.base], value))
            return
        self._held[name] = value
        self._versions[name] = self._versions.get(name, 0) + 1

    def _version(self, name: str) -> int:
        """A number that grows whenever the tensor of a name, or what it is a view of, changes."""
        view = self._views.get(name)
        return self._versions.get(name, 0) if view is None else self._version(view.base)
