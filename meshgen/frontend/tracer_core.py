"""What the tracer is made of: traced tensors, the trace that records them, promotion and broadcasting.

A traced function runs once, as ordinary Python, on `Tensor`s. Each operation appends nodes to the graph of the
current trace and points at the user's line. The operations register themselves in `OPS`, so that operators
and methods of `Tensor` find them without an import cycle.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn, TypeVar

import numpy as np

from meshgen.errors import Diagnostic, Location, ProgramError
from meshgen.ir.graph import DTYPES, Graph, TensorType, Value, dtype_name, is_complex, is_float
from meshgen.mesh import Mesh

INSIDE = tuple(f"{place}{os.sep}" for place in (Path(__file__).parents[1], Path(np.__file__).parent))  # no user's code
OPS: dict[str, Callable[..., Any]] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])

# What a traced function may use as an operand: tensors, arrays, and Python numbers, which take the other's dtype.
Operand = Any


def traced(function: _Function) -> _Function:
    """Register an operation under its name (a trailing underscore avoids Python's own names)."""
    OPS[function.__name__.rstrip("_")] = function
    return function


@dataclass
class Trace:
    """The graph that is being recorded, and the mesh where it is known (for integer axes in specs)."""

    graph: Graph
    mesh: Mesh | None = None
    constants: dict[tuple[str, float], Tensor] = field(default_factory=dict)


CURRENT: ContextVar[Trace | None] = ContextVar("meshgen_trace", default=None)


def current() -> Trace:
    """The trace being recorded. Raises ProgramError MG0001 outside of one."""
    if trace := CURRENT.get():
        return trace
    raise ProgramError(
        Diagnostic(
            "MG0001",
            "meshgen's operations work inside a function that is being traced",
            user_location(),
            hint="pass the function to meshgen.compile or meshgen.lower",
        )
    )


def user_location() -> Location | None:
    """The innermost line outside of meshgen and NumPy that is running, with its column."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # CPython has no public way this cheap
    while frame and frame.f_code.co_filename.startswith(INSIDE):
        frame = frame.f_back
    if frame is None:
        return None
    return Location(frame.f_code.co_filename, frame.f_lineno, _column(frame.f_code, frame.f_lasti))


def _column(code: CodeType, instruction: int) -> int:
    """1-based column of an instruction; 0 where the code was compiled without columns."""
    column = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)[2]
    return 0 if column is None else column + 1


def refuse(message: str, hint: str = "", code: str = "MG0104") -> NoReturn:
    """Raise a ProgramError at the user's line."""
    raise ProgramError(Diagnostic(code, message, user_location(), hint=hint))


class Tensor:
    """A tensor of a traced function. Operators broadcast and promote as NumPy does; bf16 and f16 stay narrow."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # `==` is element-wise

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def type(self) -> TensorType:
        return self.value.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.sizes

    @property
    def ndim(self) -> int:
        return self.type.rank

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def size(self) -> int:
        return self.type.size

    def __repr__(self) -> str:
        return f"Tensor({self.value.name + ': ' if self.value.name else ''}{self.type})"

    def __len__(self) -> int:
        if not self.shape:
            refuse("a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        refuse(
            f"{self.type} has no truth value while it is traced",
            "use meshgen.where instead of if, and & | instead of and or",
            "MG0103",
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        refuse(
            f"{self.type} has no elements while it is traced", "use meshgen's functions instead of NumPy's", "MG0103"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **options: Any) -> Tensor:
        """`numpy.exp(x)` and `array + x`, where there is a traced operation of that name."""
        if method != "__call__" or options or ufunc.__name__ not in OPS:
            refuse(f"numpy.{ufunc.__name__} cannot be traced", "use meshgen's functions instead of NumPy's", "MG0103")
        return OPS[ufunc.__name__](*inputs)

    def __getitem__(self, index: Any) -> Tensor:
        return OPS["getitem"](self, index)

    def __neg__(self) -> Tensor:
        return OPS["negative"](self)

    def __abs__(self) -> Tensor:
        return OPS["abs"](self)

    def __invert__(self) -> Tensor:
        return OPS["logical_not"](self)

    def __add__(self, other: Operand) -> Tensor:
        return OPS["add"](self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return OPS["add"](other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return OPS["subtract"](self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return OPS["subtract"](other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return OPS["multiply"](self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return OPS["multiply"](other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return OPS["divide"](self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return OPS["divide"](other, self)

    def __pow__(self, other: Operand) -> Tensor:
        return OPS["power"](self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return OPS["power"](other, self)

    def __matmul__(self, other: Operand) -> Tensor:
        return OPS["matmul"](self, other)

    def __rmatmul__(self, other: Operand) -> Tensor:
        return OPS["matmul"](other, self)

    def __and__(self, other: Operand) -> Tensor:
        return OPS["logical_and"](self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return OPS["logical_and"](other, self)

    def __or__(self, other: Operand) -> Tensor:
        return OPS["logical_or"](self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return OPS["logical_or"](other, self)

    def __lt__(self, other: Operand) -> Tensor:
        return OPS["less"](self, other)

    def __le__(self, other: Operand) -> Tensor:
        return OPS["less_equal"](self, other)

    def __gt__(self, other: Operand) -> Tensor:
        return OPS["greater"](self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return OPS["greater_equal"](self, other)

    def __eq__(self, other: Operand) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]  # element-wise, as in NumPy
        return OPS["equal"](self, other)

    def __ne__(self, other: Operand) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]  # element-wise, as in NumPy
        return OPS["not_equal"](self, other)

    @property
    def T(self) -> Tensor:
        """All dims reversed."""
        return OPS["transpose"](self)

    def transpose(self, *axes: int) -> Tensor:
        return OPS["transpose"](self, axes or None)

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        return OPS["reshape"](self, shape[0] if len(shape) == 1 else shape)

    def astype(self, dtype: Any) -> Tensor:
        return OPS["astype"](self, dtype)

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["sum"](self, axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["mean"](self, axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["max"](self, axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["min"](self, axis, keepdims)


def emit(op: str, operands: Sequence[Tensor], result: TensorType, attrs: Mapping[str, Any] | None = None) -> Tensor:
    """Append a node with one result of the given type, at the user's line."""
    known = dict(attrs or {})
    node = current().graph.add(op, [t.value for t in operands], [result], known, loc=user_location())
    return Tensor(node.result)


def tensor(x: Operand, dtype: str | None = None) -> Tensor:
    """A tensor from any operand; Python numbers become f32, i32 or i1 unless `dtype` says otherwise."""
    if isinstance(x, Tensor):
        return x if dtype is None or dtype == x.dtype else convert(x, dtype)
    if is_weak(x):
        return scalar(x, dtype or _weak_dtype(x))
    _strong_dtype(x)
    array = np.asarray(x)
    array = array if dtype is None else array.astype(DTYPES[dtype])
    return emit("constant", [], TensorType(array.shape, dtype_name(array.dtype)), {"value": array})


def scalar(x: float, dtype: str) -> Tensor:
    """A 0-d constant; equal ones are shared within a trace."""
    table, key = current().constants, (dtype, float(x))
    if key not in table or (x == 0 and math.copysign(1, x) < 0):
        try:
            value = np.array(x, DTYPES[dtype])
        except OverflowError:
            refuse(f"{x} is out of the range of {dtype}")
        table[key] = emit("constant", [], TensorType((), dtype), {"value": value})
    return table[key]


def convert(x: Tensor, dtype: str) -> Tensor:
    """The tensor with another element type; itself where it has that already."""
    return x if x.dtype == dtype else emit("convert", [x], TensorType(x.shape, dtype))


def is_weak(x: Operand) -> bool:
    """Whether an operand is a Python number, which takes the dtype of what it meets."""
    return isinstance(x, (bool, int, float)) and not isinstance(x, np.generic)


def _weak_dtype(x: float) -> str:
    return "i1" if isinstance(x, bool) else "i32" if isinstance(x, int) else "f32"


def _strong_dtype(x: Operand) -> str:
    """Element type of a tensor or an array. Raises ProgramError for anything else."""
    if isinstance(x, Tensor):
        return x.dtype
    dtype = np.asarray(x).dtype
    if dtype not in DTYPES.values():
        refuse(f"an operand of type {type(x).__name__} is no tensor")
    return dtype_name(dtype)


def _category(dtype: str) -> int:
    return 0 if dtype == "i1" else 3 if is_complex(dtype) else 2 if is_float(dtype) else 1


def promote(*operands: Operand) -> str:
    """The common element type: the widest of the highest category (bool, integer, float); numbers only lift it."""
    strong = [_strong_dtype(x) for x in operands if not is_weak(x)]
    weak = [_weak_dtype(x) for x in operands if is_weak(x)]
    highest = max(_category(d) for d in strong + weak)
    candidates = [d for d in strong if _category(d) == highest] or [d for d in weak if _category(d) == highest]
    return reduce(_wider, candidates)


def _wider(left: str, right: str) -> str:
    """The common type of two of one category; floats of which neither holds the other meet in f32."""
    try:
        return dtype_name(np.promote_types(DTYPES[left], DTYPES[right]))
    except (TypeError, KeyError):
        return "f32" if is_float(left) else refuse(f"{left} and {right} have no common type", "convert one with astype")


def broadcast(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The tensor at a larger shape by NumPy's rules; itself where it has that shape. Raises ProgramError."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    lead = len(shape) - x.ndim
    if lead < 0 or any(have not in (1, want) for have, want in zip(x.shape, shape[lead:], strict=True)):
        refuse(f"{list(x.shape)} does not broadcast to {list(shape)}")
    return emit("broadcast_in_dim", [x], TensorType(shape, x.dtype), {"dims": tuple(range(lead, len(shape)))})


def common_shape(*tensors: Tensor) -> tuple[int, ...]:
    """The shape that all broadcast to. Raises ProgramError MG0104 with all shapes."""
    try:
        return np.broadcast_shapes(*(t.shape for t in tensors))
    except ValueError:
        refuse(
            f"the shapes {' and '.join(str(list(t.shape)) for t in tensors)} do not broadcast together",
            "from the last dim on, sizes must be equal or 1",
        )


def aligned(*operands: Operand, dtype: str | None = None) -> list[Tensor]:
    """The operands at one element type (`dtype`, else the promoted one) and one shape."""
    dtype = dtype or promote(*operands)
    tensors = [tensor(x, dtype) for x in operands]
    shape = common_shape(*tensors)
    return [broadcast(t, shape) for t in tensors]


def axis_of(axis: int, rank: int) -> int:
    """A dim counted from the front. Raises ProgramError where there is none."""
    if not -rank <= axis < rank:
        refuse(f"there is no axis {axis} in a tensor of rank {rank}")
    return axis % rank


def axes_of(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Dims counted from the front, in rising order; None is all of them. Raises ProgramError for a repeated one."""
    if axis is None:
        return tuple(range(rank))
    found = [axis_of(a, rank) for a in ([axis] if isinstance(axis, int) else axis)]
    if len({*found}) != len(found):
        refuse(f"an axis is repeated in {tuple(found)}")
    return tuple(sorted(found))


def dtype_of(dtype: Any) -> str:
    """The IR's name of an element type given as `f32`, `float32`, a NumPy dtype or a scalar class."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    try:
        return dtype_name("bool" if dtype == "bool_" else dtype)
    except (KeyError, TypeError):
        refuse(f"'{dtype}' is no element type", f"the element types are {', '.join(DTYPES)}")
