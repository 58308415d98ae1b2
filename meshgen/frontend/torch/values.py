"""What the names of a program hold, where operations change tensors in place.

PyTorch's tensors may be views of others: `x[:, 0].add_(1)` changes x. Tensors of a graph are values, so a write to a view becomes a new
value of what it is a view of, and other views are computed again when they are read next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any

from meshgen.frontend.torch.ops import indexing
from meshgen.frontend.torch.ops.elementwise import complex_, view_as_complex, view_as_real
from meshgen.frontend.torch.ops.shapes import adjoint
from meshgen.frontend.torch.ops.strided import Memory, as_strided_scatter
from meshgen.frontend.tracer.elementwise import conj, imag, negative, real
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import moveaxis, reshape, swapaxes, transpose
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.packages import report_request

# The new value of a viewed tensor, from its value, the view's new value and the arguments of the view.
Written = Callable[..., Tensor]


def _permuted_back(_x: Tensor, new: Tensor, dims: Sequence[int]) -> Tensor:
    order = [dim % new.ndim for dim in dims]
    return transpose(new, [order.index(d) for d in range(new.ndim)])


def _as_before(x: Tensor, new: Tensor, *_: Any, **__: Any) -> Tensor:
    return reshape(new, x.shape)


def _split_written(x: Tensor, new: Tensor, dim: int, start: int, size: int) -> Tensor:
    return indexing.slice_scatter(x, new, dim, start, start + size)


# Operations that give views, and what a write to the view makes of the viewed tensor.
VIEWS: Mapping[str, Written] = {
    **dict.fromkeys(("view", "reshape", "flatten", "ravel", "unflatten", "unsqueeze", "squeeze", "view_as", "reshape_as", "alias", "detach"), _as_before),
    "select": lambda x, new, dim, index: indexing.select_scatter(x, new, dim, index),
    "slice": lambda x, new, dim=0, start=None, end=None, step=1: indexing.slice_scatter(x, new, dim, start, end, step),
    "narrow": lambda x, new, dim, start, length: _split_written(x, new, dim, start % x.shape[dim], length),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), lambda _x, new, first, second: swapaxes(new, first, second)),
    "permute": _permuted_back,
    **dict.fromkeys(("t", "numpy_T"), lambda _x, new: transpose(new)),
    "mT": lambda _x, new: swapaxes(new, -1, -2),
    "diagonal": lambda x, new, *args, **options: indexing.diagonal_scatter(x, new, *args, **options),
    "as_strided": lambda x, new, *args, **options: as_strided_scatter(x, new, *args, **options),
    **dict.fromkeys(("_conj", "conj"), lambda _x, new: conj(new)),
    "_neg_view": lambda _x, new: negative(new),
    "real": lambda x, new: complex_(new, imag(x)),
    "imag": lambda x, new: complex_(real(x), new),
    "view_as_real": lambda _x, new: view_as_complex(new),
    "view_as_complex": lambda _x, new: view_as_real(new),
    **dict.fromkeys(("movedim", "moveaxis"), lambda _x, new, source, destination: moveaxis(new, destination, source)),
    **dict.fromkeys(("adjoint", "mH", "H", "matrix_H"), lambda _x, new: adjoint(new)),
}  # fmt: skip
# Operations that give several views, rows along a dim one after the other, and those whose views cannot be written here.
_SPLIT_DIMS = {"hsplit": 1, "vsplit": 0, "dsplit": 2}
SPLITS = ("unbind", "split", "split_with_sizes", "chunk", "tensor_split", *_SPLIT_DIMS)
READ_ONLY = ("expand", "unfold", "broadcast_to", "expand_as")  # fmt: skip


# Operations that change the shape of a tensor in place: it is another view of its memory from then on.
TURNS = {"transpose_": "transpose.int", "swapaxes_": "swapaxes", "swapdims_": "swapdims", "t_": "t", "squeeze_": "squeeze", "unsqueeze_": "unsqueeze"}  # fmt: skip
# Operations whose result is their first argument itself where reading them has given it back, and those that copy it where its memory needs that.
SAME = (
    "alpha_dropout", "contiguous", "dropout", "feature_alpha_dropout", "feature_dropout", "lift", "lift_fresh", "pin_memory",
    "positive", "requires_grad", "resolve_conj", "resolve_neg", "to", "type_as",
)  # fmt: skip
_MAY_COPY = ("contiguous", "flatten", "ravel", "reshape", "reshape_as")


def is_copied(kind: str, x: Memory | None, result: Memory | None) -> bool:
    """Whether an operation that copies its argument where it must has done so: the copy is dense, or in another order, and the argument was not."""
    if kind not in _MAY_COPY or x is None or result is None:
        return False
    own, new = ([(n, step) for n, step in zip(each.sizes, each.strides, strict=True) if n != 1] for each in (x, result))
    if x.sizes == result.sizes:
        return own != new
    return _is_dense(new) and not _is_dense(own)


def _is_dense(dims: Sequence[tuple[int, int]]) -> bool:
    dense = accumulate((n for n, _ in dims[:0:-1]), mul, initial=1)
    return [step for _, step in dims[::-1]] == [*dense][: len(dims)]


def is_einsum_view(args: Sequence[Any], result: Tensor) -> bool:
    """Whether an einsum sums nothing of its only operand, so that torch returns a view of it: permuted dims, or a diagonal."""
    if len(args) < 2 or len(args[1]) != 1:
        return False
    labels, arrow, kept = args[0].replace(" ", "").partition("->")
    return result.size == args[1][0].size or (arrow != "" and {*labels} <= {*kept})


def split_dim(kind: str, x: Tensor, rest: Sequence[Any], options: Mapping[str, Any]) -> int:
    """The dim along which an operation splits a tensor."""
    if kind in _SPLIT_DIMS:
        return min(_SPLIT_DIMS[kind], x.ndim - 1)
    by_position = rest[-1] if (kind == "unbind" and rest) or len(rest) > 1 else 0
    return options.get("dim", by_position)


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


@dataclass(frozen=True)
class NumberOfData:
    """A number that a program makes of a tensor: it may select a row, and be compared where that is only checked.

    Attributes:
        tensor: the tensor; None for what is computed of such a number.
        text: why nothing else may take it.
    """

    tensor: Tensor | None
    text: str


def row_of_data(target: str, args: list[Any], number: NumberOfData) -> list[Any]:
    """Return the arguments with a tensor as the number of a row, which comes last. Raises ProgramError MG0103 for an operation on something else."""
    is_row = target in ("aten.select.int", "aten.select_scatter.default") and args[-1] is number
    if is_row and number.tensor is not None:
        return [*args[:-1], number.tensor]
    return refuse(number.text, "keep it a tensor", "MG0103")


@dataclass
class _View:
    """A name whose tensor is a view: of which name, how it is computed and written, and its value for a version of what it views."""

    base: str
    read: Callable[[Tensor], Tensor]
    write: Callable[[Tensor, Tensor], Tensor]
    version: int
    is_same: bool = False


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
                report_request("the program"),
            )
        return self._held[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._held[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def same(self, name: str, base: str) -> None:
        """The name is another one of the same tensor."""
        self._views[name] = _View(base, lambda x: x, lambda _x, new: new, self._version(base), is_same=True)

    def view(self, name: str, base: str, read: Callable[[Tensor], Tensor], write: Callable[[Tensor, Tensor], Tensor]) -> None:  # fmt: skip
        """The name is a view of the tensor of another one."""
        self._views[name] = _View(base, read, write, self._version(base))

    def turn(self, name: str, turned: str) -> None:
        """The tensor of a name has the shape of a view of it from now on. What it was has a name that no program has, and other views are views of that."""
        home, before = self._home(name), f"{turned}, before"
        self._held[before], self._versions[before] = self[home], self._versions.pop(home, 0)
        others = [each for each, view in self._views.items() if view.is_same and self._home(each) == home]
        for view in [view for view in self._views.values() if not view.is_same and self._home(view.base) == home]:
            view.base = before
        if home in self._views:
            self._views[before] = self._views.pop(home)
        self.same(home, turned)
        for each in (home, *others):
            self._held[each] = self._held[turned]

    def _home(self, name: str) -> str:
        """The first name of the tensor that a name has."""
        view = self._views.get(name)
        return self._home(view.base) if view is not None and view.is_same else name

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
