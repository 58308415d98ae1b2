"""Conversion of array-like arguments to NumPy arrays. Arrays whose semantics NumPy would change are rejected.

2, 2.0 for f32[]        the number 2: a Python number is converted to the argument's type, as in JAX
jax.random.key(0)       the words of the key, ui32[2]
"""

from __future__ import annotations

import sys
from typing import Any, cast

import ml_dtypes
import numpy as np

from meshgen.ir.graph import TensorType

Array = np.ndarray[Any, Any]


class NoArrayError(Exception):
    """The argument is not an array of numbers.

    Attributes:
        what: a noun phrase that describes the argument.
        hint: how to convert the argument, or an empty string.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def plain_array(argument: Any) -> Array:
    """Convert an argument to an array of numbers.

    Accepts lists of numbers, scalars, and anything that NumPy reads as an array (pandas, JAX, torch on the CPU).

    Raises:
        NoArrayError: NumPy would drop semantics of the array (a mask, a matrix, the zeros of a sparse array), elements
            are not numbers, or a list is ragged.
    """
    _require_plain_numbers(argument)
    try:
        array = np.asarray(_array_of_torch(argument) if _is_of_torch(argument) else argument)
    # NumPy and torch raise various exceptions, for example for ragged lists or tensors on a device.
    except Exception as error:
        reason = " ".join(str(error).split())
        raise NoArrayError(
            f"a {type(argument).__name__} that cannot be converted to an array ({reason})",
            "nested lists must have rows of equal length",
        ) from error
    if array.dtype.names or array.dtype.kind in "OSUMmT":
        element_description = "structured elements" if array.dtype.names else f"elements of {array.dtype}"
        description = "an array" if hasattr(argument, "dtype") else f"a {type(argument).__name__}"
        raise NoArrayError(f"{description} with {element_description}, which are not numbers", "convert it with astype")
    return array


def same_array(left: Any, right: Any) -> bool:
    """Whether two arguments have bitwise equal elements.

    Callers may pass one tensor under two names, and both arguments must then be equal.
    """
    if left is right:
        return True
    try:
        first, second = plain_array(left), plain_array(right)
    except NoArrayError:
        return False
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    is_same_memory = first.ctypes.data == second.ctypes.data and first.strides == second.strides
    return is_same_memory or first.tobytes() == second.tobytes()


def _is_traced_by_jax(argument: Any) -> bool:
    """Whether `argument` is a tracer that represents an array while JAX traces a function."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(argument, jax.core.Tracer)


def _is_of_torch(argument: Any) -> bool:
    # A folder named `torch` can be imported as a module, too.
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(argument, tensor)


def _array_of_torch(argument: Any) -> Array:
    """Convert a torch tensor or parameter. Element types that NumPy does not have are reinterpreted bit by bit."""
    tensor = argument.detach().cpu()
    name = str(tensor.dtype).removeprefix("torch.")
    if hasattr(np, name.replace("bool", "bool_")):
        return tensor.numpy()
    torch = sys.modules["torch"]
    raw = tensor.contiguous().view({1: torch.uint8, 2: torch.int16}[tensor.element_size()]).numpy()
    return raw.view(getattr(ml_dtypes, name))


def _require_plain_numbers(argument: Any) -> None:
    """Raise NoArrayError if `argument`, or an element of a list, is more than an array of numbers: masked, sparse, a
    tracer.
    """
    if isinstance(argument, np.ma.MaskedArray):
        raise NoArrayError("a masked array", "pass .filled(...), and the mask as an array of its own")
    if isinstance(argument, np.matrix):
        raise NoArrayError("a np.matrix, whose * is a matrix product", "pass np.asarray of it")
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(argument):
        raise NoArrayError("a sparse array", "pass .toarray()")
    if _is_traced_by_jax(argument):
        hint = (
            "call the program outside of jax.jit, jax.grad and jax.vmap, or through jax.pure_callback; "
            "for gradients compile jax.grad of the function"
        )
        raise NoArrayError(f"a tracer of JAX, {argument.dtype}{list(argument.shape)}, which has no numbers yet", hint)
    for element in cast("list[Any]", argument) if isinstance(argument, (list, tuple)) else ():
        _require_plain_numbers(element)


def argument_array(argument: Any, kind: TensorType | None, key: str = "", narrows: bool = False) -> Array:
    """Convert an argument to an array of type `kind` if this preserves the numbers, else to an array of the argument's
    type.

    Args:
        argument: an array-like value (see `plain_array`), a Python number, or a typed PRNG key of JAX.
        kind: the type of the program's input, or None if unknown.
        key: the kind of PRNG key that the program takes, or an empty string.
        narrows: whether 64-bit arrays become 32-bit ones, as in JAX.
    Raises:
        NoArrayError: as for `plain_array`; also for numbers that the type cannot represent and other kinds of keys.
    """
    if is_key(argument):
        return _words_of_key(argument, key)
    if kind is None:
        return plain_array(argument)
    if type(argument) in _NUMBERS and kind.rank == 0:
        return _number(argument, kind)
    array = plain_array(argument)
    if narrows and array.dtype.name in _WIDE and kind.dtype == _WIDE[array.dtype.name]:
        return _narrowed(array, kind)
    return array


_NUMBERS = (bool, int, float, complex)
_WIDE = {"float64": "f32", "int64": "i32", "uint64": "ui32", "complex128": "c64"}


def is_number_or_key(argument: Any) -> bool:
    """Whether `argument` is a Python number or a typed PRNG key of JAX."""
    return type(argument) in _NUMBERS or is_key(argument)


def _number(number: Any, kind: TensorType) -> Array:
    """Convert a Python number to the type. Raises NoArrayError if the type cannot represent it."""
    dtype = kind.numpy_dtype
    takes_floats = dtype.kind in "fcV"  # V is the kind of the ml_dtypes floats.
    fits = {
        bool: dtype.kind == "b",
        int: takes_floats or dtype.kind in "iu",
        float: takes_floats,
        complex: dtype.kind == "c",
    }
    if not fits[type(number)]:
        raise NoArrayError(f"the {type(number).__name__} {number!r:.40}, but the program takes {kind}")
    try:
        return np.asarray(number).astype(dtype) if takes_floats else np.asarray(number, dtype)
    except OverflowError as error:
        raise NoArrayError(f"{number!r:.40}, which {kind} cannot hold") from error


def _narrowed(array: Array, kind: TensorType) -> Array:
    """Convert a 64-bit array to the 32-bit type `kind`. Raises NoArrayError for integers that 32 bits cannot represent."""
    narrow = array.astype(kind.numpy_dtype)
    if array.dtype.kind in "iu" and not np.array_equal(narrow, array):
        raise NoArrayError(f"{array.dtype.name} with numbers that {kind} cannot hold")
    return narrow


def is_key(argument: Any) -> bool:
    """Whether `argument` is a typed PRNG key of JAX, or a `ShapeDtypeStruct` for one."""
    jax = sys.modules.get("jax")
    # JAX's `issubdtype` raises for dtypes of other libraries, so the class is checked first.
    if jax is None or not isinstance(argument, jax.Array | jax.ShapeDtypeStruct):
        return False
    return jax.dtypes.issubdtype(argument.dtype, jax.dtypes.prng_key)


def _words_of_key(typed_key: Any, key: str) -> Array:
    """Return the integers that make up a typed PRNG key. Raises NoArrayError for a key of another kind than `key`."""
    random = sys.modules["jax"].random
    kind = str(random.key_impl(typed_key))
    if kind != key:
        hint = f"pass a key of kind {key}" if key else "pass jax.random.key_data of it"
        raise NoArrayError(f"a PRNG key of kind {kind}, which the program does not take", hint)
    return np.asarray(random.key_data(typed_key))


def key_of_words(words: Array, key: str) -> Any:
    """Return the typed PRNG key of kind `key` that consists of these integers. If JAX is not loaded, returns the
    integers.
    """
    jax = sys.modules.get("jax")
    return words if jax is None else jax.random.wrap_key_data(words, impl=key)
