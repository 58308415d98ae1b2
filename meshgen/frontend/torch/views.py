"""The values of an exported program's names, when operations mutate tensors in place.

PyTorch tensors may be views of other tensors: `x[:, 0].add_(1)` changes x. SSA values are immutable, so a write to a
view becomes a new value of the viewed tensor. Other views of this tensor are recomputed at their next use.
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

# Returns the new value of a viewed tensor. Operands: the viewed tensor, the new value of the view, the arguments of the
# operation that created the view.
Written = Callable[..., Tensor]


def _permute_back(_x: Tensor, new: Tensor, dims: Sequence[int]) -> Tensor:
    order = [dim % new.ndim for dim in dims]
    return transpose(new, [order.index(d) for d in range(new.ndim)])


def _restore_shape(x: Tensor, new: Tensor, *_: Any, **__: Any) -> Tensor:
    return reshape(new, x.shape)


def _update_slice(x: Tensor, new: Tensor, dim: int, start: int, size: int) -> Tensor:
    return indexing.slice_scatter(x, new, dim, start, start + size)


# Operations that return a view, and the function that updates the viewed tensor when the view is written.
VIEWS: Mapping[str, Written] = {
    **dict.fromkeys(("view", "reshape", "flatten", "ravel", "unflatten", "unsqueeze", "squeeze", "view_as", "reshape_as", "alias", "detach"), _restore_shape),
    "select": lambda x, new, dim, index: indexing.select_scatter(x, new, dim, index),
    "slice": lambda x, new, dim=0, start=None, end=None, step=1: indexing.slice_scatter(x, new, dim, start, end, step),
    "narrow": lambda x, new, dim, start, length: _update_slice(x, new, dim, start % x.shape[dim], length),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), lambda _x, new, first, second: swapaxes(new, first, second)),
    "permute": _permute_back,
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
# SPLITS: operations that return several views, consecutive slices along a dim.
# READ_ONLY: operations whose results are views that cannot be written.
_SPLIT_DIMS = {"hsplit": 1, "vsplit": 0, "dsplit": 2}
SPLITS = ("unbind", "split", "split_with_sizes", "chunk", "tensor_split", *_SPLIT_DIMS)
READ_ONLY = ("expand", "unfold", "broadcast_to", "expand_as")  # fmt: skip


# Operations that change the shape of a tensor in place, and the operations that return such a view of it.
RESHAPES_IN_PLACE = {"transpose_": "transpose.int", "swapaxes_": "swapaxes", "swapdims_": "swapdims", "t_": "t", "squeeze_": "squeeze", "unsqueeze_": "unsqueeze"}  # fmt: skip
# SAME: operations that return their first argument itself if they do not change its value.
# _MAY_COPY: operations that copy their first argument if its strides require that.
SAME = (
    "alpha_dropout", "contiguous", "dropout", "feature_alpha_dropout", "feature_dropout", "lift", "lift_fresh", "pin_memory",
    "positive", "requires_grad", "resolve_conj", "resolve_neg", "to", "type_as",
)  # fmt: skip
_MAY_COPY = ("contiguous", "flatten", "ravel", "reshape", "reshape_as")


def is_copied(kind: str, x: Memory | None, result: Memory | None) -> bool:
    """Whether an operation that returns a view of `x` if possible has copied `x`, judging by sizes and strides."""
    if kind not in _MAY_COPY or x is None or result is None:
        return False
    x_dims, result_dims = (
        [(n, step) for n, step in zip(memory.sizes, memory.strides, strict=True) if n != 1] for memory in (x, result)
    )
    if x.sizes == result.sizes:
        return x_dims != result_dims
    return _is_dense(result_dims) and not _is_dense(x_dims)


def _is_dense(dims: Sequence[tuple[int, int]]) -> bool:
    dense = accumulate((n for n, _ in dims[:0:-1]), mul, initial=1)
    return [step for _, step in dims[::-1]] == [*dense][: len(dims)]


def is_einsum_view(args: Sequence[Any], result: Tensor) -> bool:
    """Whether torch returns a view for an einsum, which has one operand and only permutes dims or takes a diagonal."""
    if len(args) < 2 or len(args[1]) != 1:
        return False
    labels, arrow, output_labels = args[0].replace(" ", "").partition("->")
    return result.size == args[1][0].size or (arrow != "" and {*labels} <= {*output_labels})


def split_dim(kind: str, x: Tensor, other_args: Sequence[Any], options: Mapping[str, Any]) -> int:
    """Return the dim along which the split operation `kind` splits `x`."""
    if kind in _SPLIT_DIMS:
        return min(_SPLIT_DIMS[kind], x.ndim - 1)
    by_position = other_args[-1] if (kind == "unbind" and other_args) or len(other_args) > 1 else 0
    return options.get("dim", by_position)


def part_writer(views: Sequence[Tensor], index: int, is_row: bool, dim: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function (x, new) -> x that updates a split tensor x after a write to `views[index]`.

    With `is_row`, each view is a single row without the dim `dim`; otherwise, it is a slice along `dim`.
    """
    axis = dim % (views[0].ndim + is_row)
    if is_row:
        return lambda x, new: indexing.select_scatter(x, new, axis, index)
    start = sum(part.shape[axis] for part in views[:index])
    return lambda x, new: indexing.slice_scatter(x, new, axis, start, start + new.shape[axis])


def refuse_write(_x: Tensor, _new: Tensor) -> Tensor:
    """Raise ProgramError for a write to a view that meshgen cannot update, such as the result of `expand`."""
    refuse("a write to a view of this kind is not supported", "write to a copy, with .clone()", "MG0103")


@dataclass(frozen=True)
class DataDependentNumber:
    """A Python number that the program reads from a tensor.

    The program may use it only as the index of a row, or in an assertion.

    Attributes:
        tensor: the tensor, or None for a value computed from such a number.
        text: the reason why other operations cannot use the number.
    """

    tensor: Tensor | None
    text: str


def select_row_by_tensor(target: str, args: list[Any], row_index: DataDependentNumber) -> list[Any]:
    """Return `args` with the last one, a data-dependent row index, replaced by its tensor.

    Raises ProgramError MG0103 if the operation `target` does not select a row.
    """
    is_row = target in ("aten.select.int", "aten.select_scatter.default") and args[-1] is row_index
    if is_row and row_index.tensor is not None:
        return [*args[:-1], row_index.tensor]
    return refuse(row_index.text, "keep it a tensor", "MG0103")


@dataclass
class _View:
    """A view of the tensor `base`, with functions to read it and to write it through to `base`.

    The value of the view was last computed for `version` of `base`.
    """

    base: str
    read: Callable[[Tensor], Tensor]
    write: Callable[[Tensor, Tensor], Tensor]
    version: int
    is_same: bool = False


class Values:
    """The tensors and numbers of a program by name. A write to a view changes the viewed tensor and its other views."""

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
        """Make `name` another name of the tensor of `base`."""
        self._views[name] = _View(base, lambda x: x, lambda _x, new: new, self._version(base), is_same=True)

    def view(self, name: str, base: str, read: Callable[[Tensor], Tensor], write: Callable[[Tensor, Tensor], Tensor]) -> None:  # fmt: skip
        """Make `name` a view of the tensor of `base`."""
        self._views[name] = _View(base, read, write, self._version(base))

    def turn(self, name: str, turned: str) -> None:
        """Replace the tensor of `name` by its view `turned`, as `transpose_` does.

        Existing views remain views of the old tensor, which is kept under a name that no program uses.
        """
        first_name, old_name = self._home(name), f"{turned}, before"
        self._held[old_name], self._versions[old_name] = self[first_name], self._versions.pop(first_name, 0)
        aliases = [alias for alias, view in self._views.items() if view.is_same and self._home(alias) == first_name]
        for view in [view for view in self._views.values() if not view.is_same and self._home(view.base) == first_name]:
            view.base = old_name
        if first_name in self._views:
            self._views[old_name] = self._views.pop(first_name)
        self.same(first_name, turned)
        for alias in (first_name, *aliases):
            self._held[alias] = self._held[turned]

    def _home(self, name: str) -> str:
        """Return the name under which the tensor of `name` is stored, following aliases."""
        view = self._views.get(name)
        return self._home(view.base) if view is not None and view.is_same else name

    def change(self, name: str, value: Any) -> None:
        """Assign a new value to the tensor of `name`.

        If `name` is a view, update the viewed tensor, so that all of its views change too.
        """
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
        """Return a number that grows with each write to the tensor of `name`, or to a tensor of which it is a view."""
        view = self._views.get(name)
        return self._versions.get(name, 0) if view is None else self._version(view.base)
