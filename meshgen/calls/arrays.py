"""Array-like arguments as NumPy arrays with the same meaning; those whose meaning NumPy would change are refused.

2, 2.0 for f32[]           that number: Python's numbers take the type of the argument, as in JAX
jax.random.key(0)          its words, ui32[2]
"""

from __future__ import annotations

import sys
from typing import Any, cast

import ml_dtypes
import numpy as np

from meshgen.ir.graph import TensorType

Array = np.ndarray[Any, Any]


class NoArrayError(Exception):
    """The argument is not an array of numbers. Holds what it is, and a hint."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def plain_array(given: Any) -> Array:
    """The argument as an array of numbers.

    Lists of numbers, scalars, and what NumPy reads as an array (pandas, JAX, torch on the CPU) are accepted. Raises
    NoArrayError for arrays whose meaning NumPy would drop (a mask, a matrix, the zeros of a sparse one), for elements that
    are not numbers, and for ragged lists.
    """
    _refuse_other_meaning(given)
    try:
        array = np.asarray(_of_torch(given) if _is_of_torch(given) else given)
    except Exception as error:  # ragged lists, tensors on a device: whatever the conversion does
        reason = " ".join(str(error).split())
        raise NoArrayError(
            f"a {type(given).__name__} that cannot be converted to an array ({reason})",
            "nested lists must have rows of equal length",
        ) from error
    if array.dtype.names or array.dtype.kind in "OSUMmT":
        kind = "structured elements" if array.dtype.names else f"elements of {array.dtype}"
        what = "an array" if hasattr(given, "dtype") else f"a {type(given).__name__}"
        raise NoArrayError(f"{what} with {kind}, which are not numbers", "convert it with astype")
    return array


def same_array(left: Any, right: Any) -> bool:
    """Whether two arguments have the same elements, bit for bit: two names of a tensor may both be given."""
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


def _is_traced_by_jax(given: Any) -> bool:
    """Whether this stands for an array in a function that JAX traces."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(given, jax.core.Tracer)


def _is_of_torch(given: Any) -> bool:
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)  # a folder of that name is a module too
    return tensor is not None and isinstance(given, tensor)


def _of_torch(given: Any) -> Array:
    """A tensor of torch, also a parameter, and of element types that NumPy does not have: their bits."""
    plain = given.detach().cpu()
    name = str(plain.dtype).removeprefix("torch.")
    if hasattr(np, name.replace("bool", "bool_")):
        return plain.numpy()
    bits = sys.modules["torch"]
    whole = plain.contiguous().view({1: bits.uint8, 2: bits.int16}[plain.element_size()]).numpy()
    return whole.view(getattr(ml_dtypes, name))


def _refuse_other_meaning(given: Any) -> None:
    """Raise NoArrayError for an array, or lists with one in them, with more meaning than its numbers."""
    if isinstance(given, np.ma.MaskedArray):
        raise NoArrayError("a masked array", "pass .filled(...), and the mask as an array of its own")
    if isinstance(given, np.matrix):
        raise NoArrayError("a np.matrix, whose * is a matrix product", "pass np.asarray of it")
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(given):
        raise NoArrayError("a sparse array", "pass .toarray()")
    if _is_traced_by_jax(given):
        hint = (
            "call the program outside of jax.jit, jax.grad and jax.vmap, or through jax.pure_callback; "
            "for gradients compile jax.grad of the function"
        )
        raise NoArrayError(f"a tracer of JAX, {given.dtype}{list(given.shape)}, which has no numbers yet", hint)
    for each in cast("list[Any]", given) if isinstance(given, (list, tuple)) else ():
        _refuse_other_meaning(each)


def argument_array(given: Any, kind: TensorType | None, key: str = "", narrows: bool = False) -> Array:
    """An argument as an array of the program's type, where it has the same numbers in that; else as it is.

    Args:
        given: as of `plain_array`, a number, or a typed PRNG key of JAX.
        kind: the program's type, if it is known.
        key: the kind of PRNG key that the program takes; empty: none.
        narrows: 64-bit arrays become 32-bit ones, as JAX does.
    Raises:
        NoArrayError: as `plain_array`; numbers that the type cannot hold; another kind of key.
    """
    if is_key(given):
        return _words_of_key(given, key)
    if kind is None:
        return plain_array(given)
    if type(given) in _NUMBERS and kind.rank == 0:
        return _number(given, kind)
    array = plain_array(given)
    if narrows and array.dtype.name in _WIDE and kind.dtype == _WIDE[array.dtype.name]:
        return _narrowed(array, kind)
    return array


_NUMBERS = (bool, int, float, complex)
_WIDE = {"float64": "f32", "int64": "i32", "uint64": "ui32", "complex128": "c64"}


def is_number_or_key(given: Any) -> bool:
    """Whether this is a number of Python, or a typed PRNG key of JAX."""
    return type(given) in _NUMBERS or is_key(given)


def _number(given: Any, kind: TensorType) -> Array:
    """A number of Python as the type. Raises NoArrayError where that cannot hold it."""
    dtype = kind.numpy_dtype
    takes_floats = dtype.kind in "fcV"  # V: the floats of ml_dtypes
    fits = {
        bool: dtype.kind == "b",
        int: takes_floats or dtype.kind in "iu",
        float: takes_floats,
        complex: dtype.kind == "c",
    }
    if not fits[type(given)]:
        raise NoArrayError(f"the {type(given).__name__} {given!r:.40}, but the program takes {kind}")
    try:
        return np.asarray(given).astype(dtype) if takes_floats else np.asarray(given, dtype)
    except OverflowError as error:
        raise NoArrayError(f"{given!r:.40}, which {kind} cannot hold") from error


def _narrowed(array: Array, kind: TensorType) -> Array:
    """Raises NoArrayError for integers that 32 bits cannot hold."""
    narrow = array.astype(kind.numpy_dtype)
    if array.dtype.kind in "iu" and not np.array_equal(narrow, array):
        raise NoArrayError(f"{array.dtype.name} with numbers that {kind} cannot hold")
    return narrow


def is_key(given: Any) -> bool:
    """Whether this is a typed PRNG key of JAX, or the type of one."""
    jax = sys.modules.get("jax")
    if jax is None or not isinstance(given, jax.Array | jax.ShapeDtypeStruct):  # JAX knows no dtypes of other libraries
        return False
    return jax.dtypes.issubdtype(given.dtype, jax.dtypes.prng_key)


def _words_of_key(given: Any, key: str) -> Array:
    """The words of a typed PRNG key. Raises NoArrayError for one of another kind."""
    random = sys.modules["jax"].random
    kind = str(random.key_impl(given))
    if kind != key:
        hint = f"pass a key of kind {key}" if key else "pass jax.random.key_data of it"
        raise NoArrayError(f"a PRNG key of kind {kind}, which the program does not take", hint)
    return np.asarray(random.key_data(given))


def key_of_words(words: Array, key: str) -> Any:
    """A typed PRNG key of its words, where JAX is loaded; else the words."""
    jax = sys.modules.get("jax")
    return words if jax is None else jax.random.wrap_key_data(words, impl=key)
