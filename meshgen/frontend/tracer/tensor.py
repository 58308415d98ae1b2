"""The tensor of a traced function; its methods are looked up in the table of operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from meshgen.frontend.tracer.recording import CURRENT, OPS, refuse
from meshgen.ir.graph import TensorType, Value

# What a traced function may use as an operand: tensors, arrays, and Python numbers, which take the other's dtype.
Operand = Any


class Tensor:
    """A tensor of a traced function. Operators broadcast and promote as NumPy does; bf16 and f16 stay narrow."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # `==` is element-wise

    def __init__(self, value: Value) -> None:
        self.value, self.trace = value, CURRENT.get()

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
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy's (that of ml_dtypes for bf16 and the like), so that `x.dtype == np.float32` holds."""
        return self.type.numpy_dtype

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

    def __float__(self) -> float:
        self._no_number()

    def __int__(self) -> int:
        self._no_number()

    def __complex__(self) -> complex:
        self._no_number()

    def _no_number(self) -> NoReturn:
        refuse(
            f"{self.type} has no numeric value while it is traced: the function runs once, before any array exists",
            "use meshgen's functions instead of float, int and math",
            "MG0103",
        )

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        refuse("a tensor cannot be changed in place", "make a new one with meshgen.where or concatenate", "MG0103")

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
        return OPS["invert"](self)

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
        return OPS["bitwise_and"](self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return OPS["bitwise_and"](other, self)

    def __or__(self, other: Operand) -> Tensor:
        return OPS["bitwise_or"](self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return OPS["bitwise_or"](other, self)

    def __xor__(self, other: Operand) -> Tensor:
        return OPS["bitwise_xor"](self, other)

    def __rxor__(self, other: Operand) -> Tensor:
        return OPS["bitwise_xor"](other, self)

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

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
        return OPS["sum"](self, axis, keepdims, dtype=dtype)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["mean"](self, axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["max"](self, axis, keepdims)

    def std(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["std"](self, axis, keepdims)

    def var(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["var"](self, axis, keepdims)

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
        return OPS["prod"](self, axis, keepdims, dtype=dtype)

    def all(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["all"](self, axis, keepdims)

    def any(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["any"](self, axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return OPS["min"](self, axis, keepdims)
