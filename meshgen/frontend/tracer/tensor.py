"""The tensor of a traced function. Its operators and methods call the operations in `OPS` (`recording.py`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from meshgen.frontend.tracer.recording import CURRENT, OPS, missing, refuse
from meshgen.ir.graph import TensorType, Value

# An operand of a traced operation: a tensor, an array, or a Python number. A number takes the other operands' dtype.
Operand = Any


def _method(name: str) -> Callable[..., Tensor]:
    """Return a method that calls the operation `name` with `self` as first operand."""

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return OPS[name](self, *args, **kwargs)

    call.__name__ = name
    return call


def _operators(name: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Return two methods for a binary operator: with `self` as left operand, and with `self` as right operand."""

    def reflected(self: Tensor, other: Operand) -> Tensor:
        return OPS[name](other, self)

    return _method(name), reflected


class Tensor:
    """A tensor of a traced function.

    Operators broadcast and promote dtypes as NumPy does, but bf16 and f16 are not widened.

    A tensor computed only from Python numbers is `weak`, as the numbers are: `x / mg.sqrt(8)` has the dtype of x, as in
    JAX.
    """

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # `==` is element-wise

    def __init__(self, value: Value, weak: bool = False) -> None:
        self.value, self.origin, self.weak = value, CURRENT.get(), weak

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
        """Return the dtype as a NumPy dtype, so that `x.dtype == np.float32` works.

        The dtype of bf16 and other dtypes that NumPy lacks comes from ml_dtypes.
        """
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
        self._refuse_number()

    def __int__(self) -> int:
        self._refuse_number()

    def __complex__(self) -> complex:
        self._refuse_number()

    def _refuse_number(self) -> NoReturn:
        refuse(
            f"{self.type} has no numeric value while it is traced: the function runs once, before any array exists",
            "use meshgen's functions instead of float, int and math",
            "MG0103",
        )

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        refuse("a tensor cannot be changed in place", "x = x.at[index].set(value) makes a new one", "MG0103")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        refuse(
            f"{self.type} has no elements while it is traced", "use meshgen's functions instead of NumPy's", "MG0103"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **options: Any) -> Tensor:
        """Handle `numpy.exp(x)` and `array + x` by the traced operation with the name of the NumPy function.

        Raises ProgramError if that operation does not exist.
        """
        if method != "__call__" or options or ufunc.__name__ not in OPS:
            refuse(f"numpy.{ufunc.__name__} cannot be traced", "use meshgen's functions instead of NumPy's", "MG0103")
        return OPS[ufunc.__name__](*inputs)

    __getitem__ = _method("getitem")
    __neg__, __pos__, __abs__, __invert__ = map(_method, ("negative", "positive", "abs", "invert"))
    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("subtract")
    __mul__, __rmul__ = _operators("multiply")
    __truediv__, __rtruediv__ = _operators("divide")
    __floordiv__, __rfloordiv__ = _operators("floor_divide")
    __mod__, __rmod__ = _operators("remainder")
    __divmod__, __rdivmod__ = _operators("divmod")
    __pow__, __rpow__ = _operators("power")
    __matmul__, __rmatmul__ = _operators("matmul")
    __and__, __rand__ = _operators("bitwise_and")
    __or__, __ror__ = _operators("bitwise_or")
    __xor__, __rxor__ = _operators("bitwise_xor")
    __lshift__, __rlshift__ = _operators("left_shift")
    __rshift__, __rrshift__ = _operators("right_shift")
    __lt__, __le__, __gt__, __ge__ = map(_method, ("less", "less_equal", "greater", "greater_equal"))

    def __eq__(self, other: Operand) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]  # element-wise, as in NumPy
        return OPS["equal"](self, other)

    def __ne__(self, other: Operand) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]  # element-wise, as in NumPy
        return OPS["not_equal"](self, other)

    all, any, sum, prod, mean, std, var = map(_method, ("all", "any", "sum", "prod", "mean", "std", "var"))
    max, min, argmax, argmin = map(_method, ("max", "min", "argmax", "argmin"))
    cumsum, cumprod, sort, argsort, round = map(_method, ("cumsum", "cumprod", "sort", "argsort", "round"))
    astype, clip, conj, copy, dot, take = map(_method, ("astype", "clip", "conj", "asarray", "dot", "take"))
    squeeze, swapaxes, repeat, diagonal, trace = map(_method, ("squeeze", "swapaxes", "repeat", "diagonal", "trace"))
    flatten, ravel, nonzero, searchsorted = map(_method, ("ravel", "ravel", "nonzero", "searchsorted"))

    def reshape(self, *shape: Any) -> Tensor:
        """Return the elements in another shape. The shape is one sequence, or one argument per size."""
        return OPS["reshape"](self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Tensor:
        """Permute the dims.

        The order is one sequence, or one argument per dim; without arguments, the dims are reversed.
        """
        return OPS["transpose"](self, axes or None)

    T = property(_method("transpose"), doc="All dims reversed.")
    mT = property(_method("matrix_transpose"), doc="The last two dims swapped.")
    real = property(_method("real"), doc="The real parts.")
    imag = property(_method("imag"), doc="The imaginary parts.")
    at = property(
        _method("at"), doc="`x.at[index].set(value)`, `.add`, ...: the tensor with changed elements, as in JAX."
    )

    @property
    def device(self) -> str:
        """Return a device name for the array-API standard; a traced tensor is on no device yet."""
        return "mesh"

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """Return the tensor unchanged, because the compiler and the shardings determine the devices of a tensor."""
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the package `meshgen`, which has the functions of the array-API standard."""
        return sys.modules["meshgen"]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # Other libraries probe for the names of protocols such as `__array__`.
        raise missing(name, "Tensor.", dir(type(self)))
