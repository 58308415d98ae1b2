"""Conversion of operands to a common dtype and shape: type promotion, broadcasting, checks of axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from numbers import Integral
from typing import Any, cast

import numpy as np

from meshgen.calls.arrays import NoArrayError, plain_array
from meshgen.errors import Diagnostic
from meshgen.frontend.tracer.recording import current, refuse, user_location
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, TensorType, dtype_name, is_complex, is_float, is_inexact


def emit(op: str, operands: Sequence[Tensor], result: TensorType, attrs: Mapping[str, Any] | None = None, *,
         option: tuple[tuple[str, ...], ...] | None = None) -> Tensor:  # fmt: skip
    """Append an op with one result to the graph, located at the user's line.

    `option` is a sharding option: the mesh axes of each loop of the op.
    """
    node = current().graph.add(op, [_own(t).value for t in operands], [result], attrs, loc=user_location())
    node.option = option
    return Tensor(node.result, bool(operands) and all(t.weak for t in operands))


def emit_all(op: str, operands: Sequence[Tensor], results: Sequence[TensorType], attrs: Mapping[str, Any]) -> list[Tensor]:  # fmt: skip
    """Append an op with several results to the graph, located at the user's line."""
    node = current().graph.add(op, [_own(t).value for t in operands], list(results), attrs, loc=user_location())
    return [Tensor(value) for value in node.results]


def tensor(x: Operand, dtype: str | None = None) -> Tensor:
    """Convert an operand to a tensor. Without `dtype`, a Python number becomes a weak tensor of f32, i32, i1 or c64.

    `is_weak` describes weak tensors.
    """
    if isinstance(x, Tensor):
        return _own(x) if dtype is None else Tensor(convert(_own(x), dtype).value)
    if is_weak(x):
        return Tensor(scalar(x, dtype or _weak_dtype(x)).value, weak=dtype is None)
    array = _array(x)
    array = array if dtype is None else array.astype(DTYPES[dtype])
    return emit("constant", [], TensorType(array.shape, dtype_name(array.dtype)), {"value": array})


def _own(x: Tensor) -> Tensor:
    """Return the tensor. Raises ProgramError MG0104 if it does not belong to the function that is being traced."""
    if not current().has(x.origin):
        refuse(
            f"{x} belongs to another traced function, or to a call of it that has ended",
            "pass it as an argument, or return it",
        )
    return x


def sizes_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return a user's shape as a tuple. Raises ProgramError for negative sizes and values that are not integers."""
    sizes = [shape] if isinstance(shape, (int, float)) else list(shape)
    if any(isinstance(size, Tensor) or not isinstance(size, Integral) or size < 0 for size in sizes):
        refuse(f"{shape} is not a shape", "sizes are non-negative integers, known while the function is traced")
    return tuple(int(size) for size in sizes)


def scalar(x: complex, dtype: str) -> Tensor:
    """Return a 0-d constant. A trace contains equal constants only once."""
    table, key = (
        current().constants,
        (dtype, x, _signs(x)),
    )  # An integer is not converted to float first, because a float cannot represent large integers.
    if key not in table:
        try:
            value = np.array(x, DTYPES[dtype])
        except OverflowError:
            refuse(f"{x} is out of range for {dtype}")
        table[key] = emit("constant", [], TensorType((), dtype), {"value": value}).value
    return Tensor(table[key])


def _signs(x: complex) -> tuple[float, ...]:
    """Return the signs of the real and imaginary parts.

    They tell the constants -0.0 and 0.0 apart, which compare equal.
    """
    parts = (x.real, x.imag) if isinstance(x, complex) else (x,) if isinstance(x, float) else ()
    return tuple(math.copysign(1, part) for part in parts)


def convert(x: Tensor, dtype: str) -> Tensor:
    """Return the tensor, converted to `dtype` unless it already has that dtype."""
    return x if x.type.dtype == dtype else emit("convert", [x], TensorType(x.shape, dtype))


def is_weak(x: Operand) -> bool:
    """Whether an operand adopts the dtype of the other operands of an operation.

    Weak operands are Python numbers, NumPy's float64 and complex128 scalars, and tensors computed only from weak
    operands. As in JAX, `np.sqrt(8)` is weak, because NumPy makes every Python number float64.
    """
    if isinstance(x, Tensor):
        return x.weak
    is_numpys = isinstance(x, np.generic) and not isinstance(x, (np.float64, np.complex128))
    return isinstance(x, (bool, int, float, complex)) and not is_numpys


def _weak_dtype(x: Operand) -> str:
    if isinstance(x, Tensor):
        return x.type.dtype
    return "i1" if isinstance(x, bool) else "i32" if isinstance(x, int) else "f32" if isinstance(x, float) else "c64"


def _strong_dtype(x: Operand) -> str:
    """Return the dtype of a tensor or an array. Raises ProgramError for any other operand."""
    return x.type.dtype if isinstance(x, Tensor) else dtype_name(_array(x).dtype)


def _array(x: Operand) -> np.ndarray[Any, Any]:
    """Convert an operand to an array. Raises ProgramError for a non-array or an unsupported dtype."""
    try:
        array = plain_array(x)
    except NoArrayError as error:
        refuse(f"an operand is {error.what}", error.hint)
    if array.dtype not in DTYPES.values():
        refuse(f"an operand has elements of {array.dtype}", f"the element types are {', '.join(DTYPES)}")
    return array


def _category(dtype: str) -> int:
    return 0 if dtype == "i1" else 3 if is_complex(dtype) else 2 if is_float(dtype) else 1


def promote(*operands: Operand) -> str:
    """Return the common dtype: the widest dtype of the highest category (bool, integer, float, complex).

    Weak operands can raise the category, but do not count for the width.
    """
    strong = [_strong_dtype(x) for x in operands if not is_weak(x)]
    weak = [_weak_dtype(x) for x in operands if is_weak(x)]
    highest = max(_category(d) for d in strong + weak)
    if highest == _category("c64"):
        strong = [_complex_of(d) if is_float(d) else d for d in strong]
    candidates = [d for d in strong if _category(d) == highest] or [d for d in weak if _category(d) == highest]
    result = reduce(_wider, candidates)
    _warn_of_wide_arrays(operands, result)
    return result


def _complex_of(dtype: str) -> str:
    return "c128" if dtype == "f64" else "c64"


def _warn_of_wide_arrays(operands: Sequence[Operand], result: str) -> None:
    """Warn at the user's line if an f64 array makes the result f64 although a tensor has a narrower float dtype."""
    if result not in ("f64", "c128"):
        return
    narrow_types = [
        x.type for x in operands if isinstance(x, Tensor) and is_inexact(x.type.dtype) and x.type.dtype != result
    ]
    wide_arrays = [
        x for x in operands if not isinstance(x, Tensor) and not is_weak(x) and _strong_dtype(x) in ("f64", "c128")
    ]
    wide_tensors = [x for x in operands if isinstance(x, Tensor) and x.type.dtype in ("f64", "c128")]
    if narrow_types and wide_arrays and not wide_tensors:
        dtype = narrow_types[0].dtype
        text = f"an array of {_strong_dtype(wide_arrays[0])} promotes {narrow_types[0]} to {result}"
        hint = f"convert the array with .astype(x.dtype), where x is the tensor, to stay in {dtype}"
        current().warn(Diagnostic("MG0607", text, user_location(), hint=hint))


def _wider(left: str, right: str) -> str:
    """Return the common dtype of two dtypes of one category.

    It is f32 for two float dtypes if neither contains the other.
    """
    try:
        return dtype_name(np.promote_types(DTYPES[left], DTYPES[right]))
    except (TypeError, KeyError):
        return "f32" if is_float(left) else refuse(f"{left} and {right} have no common type", "convert one with astype")


def broadcast(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Broadcast the tensor to `shape` by NumPy's rules. Raises ProgramError if that is impossible."""
    shape = sizes_of(shape)
    if x.shape == shape:
        return x
    new_dims = len(shape) - x.ndim
    if new_dims < 0 or any(
        size not in (1, target_size) for size, target_size in zip(x.shape, shape[new_dims:], strict=True)
    ):
        refuse(f"{list(x.shape)} does not broadcast to {list(shape)}")
    return emit("broadcast_in_dim", [x], TensorType(shape, x.type.dtype), {"dims": tuple(range(new_dims, len(shape)))})


def common_shape(*tensors: Tensor) -> tuple[int, ...]:
    """Return the shape to which all tensors broadcast.

    If they do not broadcast, raises ProgramError MG0104 with all shapes.
    """
    try:
        return np.broadcast_shapes(*(t.shape for t in tensors))
    except ValueError:
        refuse(
            f"the shapes {' and '.join(str(list(t.shape)) for t in tensors)} do not broadcast together",
            "from the last dim on, sizes must be equal or 1",
        )


def aligned(*operands: Operand, dtype: str | None = None) -> list[Tensor]:
    """Convert the operands to one dtype (`dtype`, by default the promoted one) and broadcast them to one shape."""
    weak = all(map(is_weak, operands))
    dtype = dtype or promote(*operands)
    tensors = [Tensor(tensor(x, dtype).value, weak) for x in operands]
    shape = common_shape(*tensors)
    return [broadcast(t, shape) for t in tensors]


def axis_of(axis: int, rank: int) -> int:
    """Return a dim counted from the front. Raises ProgramError if `axis` is out of range."""
    if not isinstance(cast("Any", axis), Integral) or not -rank <= axis < rank:
        refuse(f"axis {axis} is out of range for a tensor of rank {rank}")
    return int(axis) % rank


def axes_of(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Return dims counted from the front, in ascending order; None means all dims.

    Raises ProgramError for a repeated dim.
    """
    if axis is None:
        return tuple(range(rank))
    axis_list: list[Any] = [axis] if isinstance(axis, Integral) else list(cast("Sequence[int]", axis))
    dims = [axis_of(a, rank) for a in axis_list]
    if len({*dims}) != len(dims):
        refuse(f"an axis is repeated in {tuple(dims)}")
    return tuple(sorted(dims))


def dtype_of(dtype: Any) -> str:
    """Return the IR's name of a dtype. `dtype` is `f32`, `float32`, a NumPy dtype or a scalar class."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    try:
        return dtype_name("bool" if dtype == "bool_" else dtype)
    except (KeyError, TypeError):
        refuse(f"unknown element type '{dtype}'", f"the element types are {', '.join(DTYPES)}")
