"""Triton's interpreter, driven over NumPy arrays with the numerics of a GPU.

The stock interpreter keeps bf16 and fp8 as raw bits: it truncates in casts and multiplies bit patterns. Here, such
tensors are ml_dtypes arrays, casts round to nearest even, fp8 saturates, and dots accumulate in f32. A load or store
outside of the arguments raises an error instead of crashing. Only `interpret.py` imports this module; it needs Triton.

Remaining differences from a GPU: the order of accumulation in a dot, transcendental functions (libm instead of
ex2.approx, about 1e-6), no contraction to fused multiply-add, and programs run one after another.
"""
# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import ast
import inspect
import math
import textwrap
import types
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock
from triton.runtime.jit import JITFunction

from meshgen.errors import Diagnostic, MeshgenError, RuntimeFailure
from meshgen.ir.graph import dtype_name
from meshgen.ops.evaluate.common import Array
from meshgen.ops.evaluate.elementwise import convert
from meshgen.ops.evaluate.fma import fma64
from meshgen.ops.special_functions import erf_inv
from meshgen.runtime import interpret_folds

_NARROW: dict[Any, np.dtype[Any]] = {
    tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
    tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
}
_LARGEST = {np.dtype(ml_dtypes.float8_e4m3fn): 448.0, np.dtype(ml_dtypes.float8_e5m2): 57344.0}
_POINTEES: dict[np.dtype[Any], Any] = {
    **{dtype: kind for kind, dtype in _NARROW.items()},
    np.dtype(np.bool_): tl.int1, np.dtype(np.int8): tl.int8, np.dtype(np.int16): tl.int16,
    np.dtype(np.int32): tl.int32, np.dtype(np.int64): tl.int64, np.dtype(np.uint8): tl.uint8,
    np.dtype(np.uint16): tl.uint16, np.dtype(np.uint32): tl.uint32, np.dtype(np.uint64): tl.uint64,
    np.dtype(np.float16): tl.float16, np.dtype(np.float32): tl.float32, np.dtype(np.float64): tl.float64,
}  # fmt: skip
# log2 of the distance between arguments in the kernel's address space; 32-bit offsets of 8-byte elements need 36
_ADDRESS_BITS = 44
_MISSING = object()
Handle = Any  # the interpreter's TensorHandle
_stock_dtype = stock._get_np_dtype
_stock_patch_tensor = stock._patch_lang_tensor


# Values ---------------------------------------------------------------------------------------------------------


def _numpy_dtype(kind: Any) -> np.dtype[Any]:
    scalar = kind.element_ty if isinstance(kind, tl.block_type) else kind
    if isinstance(scalar, tl.pointer_type):  # tensor handles are not hashable
        return np.dtype(np.uint64)
    return _NARROW.get(scalar) or _stock_dtype(kind)


def _widened_to_f32(data: Array) -> Array:
    """Return bf16 and fp8 arrays as f32, and other arrays unchanged."""
    return data.astype(np.float32) if data.dtype in _NARROW.values() else data


def _rounded(data: Array, kind: Any) -> Handle:
    """Convert data to a tensor of a Triton type with rounding to nearest even. fp8 saturates as in `cvt.rn.satfinite`."""
    target = _numpy_dtype(kind)
    if data.dtype != target:
        data = _widened_to_f32(np.asarray(data))
        if target in _LARGEST:
            data = np.clip(data, -_LARGEST[target], _LARGEST[target])
        data = convert(data, dtype_name(target)) if target.kind in "iu" else data.astype(target)
    return stock.TensorHandle(data, kind.scalar)


def _cast(self: Any, src: Handle, kind: Any, *_: Any) -> Handle:
    return _rounded(src.data, kind)


def _binary(self: Any, lhs: Handle, rhs: Handle, op: Callable[..., Any]) -> Handle:
    output = op(_widened_to_f32(lhs.data), _widened_to_f32(rhs.data))
    return stock.TensorHandle(output, tl.int1) if output.dtype == np.bool_ else _rounded(output, lhs.dtype.scalar)


def _unary(self: Any, arg: Handle, op: Callable[..., Any]) -> Handle:
    return _rounded(np.asarray(op(_widened_to_f32(arg.data))), arg.dtype)


def _fma(self: Any, x: Handle, y: Handle, z: Handle) -> Handle:
    """Compute a f32 fused multiply-add with one rounding. In f64, the product of two f32 numbers is exact."""
    a, b, c = (h.data.astype(np.float64) for h in (x, y, z))
    return _rounded(fma64(a, b, c), z.dtype)


def _clamp(self: Any, x: Handle, low: Handle, high: Handle, propagate_nan: Any) -> Handle:
    data, bottom, top = (_widened_to_f32(h.data) for h in (x, low, high))
    keeps_nan = propagate_nan == stock._ir.PROPAGATE_NAN.ALL
    clamped = np.clip(data, bottom, top) if keeps_nan else np.fmin(np.fmax(data, bottom), top)
    return _rounded(clamped, x.dtype)


def _dot(self: Any, a: Handle, b: Handle, acc: Handle, *_: Any) -> Handle:
    product = np.matmul(_widened_to_f32(a.data), _widened_to_f32(b.data), dtype=_widened_to_f32(acc.data).dtype)
    return _rounded(product + _widened_to_f32(acc.data), acc.dtype)


def _erf(self: Any, arg: Handle) -> Handle:
    return _rounded(np.vectorize(math.erf, otypes=[np.float64])(arg.data), arg.dtype)


def _bf16_constant(self: Any, value: float) -> Handle:
    return stock.TensorHandle(np.array([value], ml_dtypes.bfloat16), tl.bfloat16)


_LIBDEVICE: dict[str, Callable[..., Any]] = {
    "tanh": np.tanh, "erf": np.vectorize(math.erf, otypes=[np.float64]), "exp": np.exp, "expm1": np.expm1,
    "log": np.log, "log1p": np.log1p, "pow": np.power, "fmod": np.fmod, "atan2": np.arctan2, "cbrt": np.cbrt,
    "rint": np.rint, "nearbyint": np.rint, "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan, "fabs": np.abs, "abs": np.abs,
    "copysign": np.copysign, "popc": np.bitwise_count, "fma": lambda x, y, z: x * y + z,
    "round": lambda x: np.trunc(x + np.copysign(np.where(np.abs(x - np.trunc(x)) >= 0.5, 0.5, 0), x)),
    "erfinv": erf_inv, "div_rn": np.divide, "finite": np.isfinite, "isfinite": np.isfinite,
    "isnan": np.isnan, "isinf": np.isinf, "exp2": np.exp2, "log2": np.log2,
}  # fmt: skip


def _extern(self: Any, library: str, path: str, symbol: str, args: list[Handle], kind: Any, pure: bool) -> Handle:
    """Evaluate a libdevice function in f64 and round the result once.

    `__nv_tanhf` is the f32 variant of `__nv_tanh`.
    """
    name = (
        symbol.removeprefix("__nv_").removeprefix("f") if symbol.startswith("__nv_f") else symbol.removeprefix("__nv_")
    )
    plain = symbol.removeprefix("__nv_")
    for candidate in (plain, plain[:-1], name):
        if candidate in _LIBDEVICE:
            wide = [a.data.astype(np.float64) if a.data.dtype.kind == "f" else _widened_to_f32(a.data) for a in args]
            return _rounded(np.asarray(_LIBDEVICE[candidate](*wide)), kind)
    raise RuntimeFailure(Diagnostic("MG0604", f"the interpreter does not support '{symbol}'"))


# Memory ---------------------------------------------------------------------------------------------------------


class _Memory:
    """The interpreter's loads and stores, with a check that each access stays within the memory of its argument.

    Kernels see widely spaced addresses, so a wrong address never hits another argument. All other attributes are those
    of the interpreter's C module.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._module = stock._interpreter
        self._names = list(arrays)
        self._places = np.array([a.ctypes.data for a in arrays.values()], np.int64)
        self._sizes = np.array([a.nbytes for a in arrays.values()], np.int64)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def pointer(self, name: str) -> int:
        """Return the address of an argument in the kernel's address space."""
        return (self._names.index(name) + 1) << _ADDRESS_BITS

    def load(self, ptrs: Array, mask: Array, other: Array, dtype: np.dtype[Any]) -> Array:
        raw = _raw_dtype(dtype)
        places = self._host_addresses(ptrs, mask, dtype.itemsize, "reads")
        return self._module.load(places, mask, np.ascontiguousarray(other).view(raw), raw).view(dtype)

    def store(self, ptrs: Array, value: Array, mask: Array) -> None:
        places = self._host_addresses(ptrs, mask, value.dtype.itemsize, "writes")
        self._module.store(places, np.ascontiguousarray(value).view(_raw_dtype(value.dtype)), mask)

    def _host_addresses(self, ptrs: Array, mask: Array, size: int, verb: str) -> Array:
        """Convert pointers of a kernel to host addresses. Masked-out elements may point anywhere."""
        addresses = ptrs.astype(np.int64)
        argument = ((addresses + (1 << (_ADDRESS_BITS - 1))) >> _ADDRESS_BITS) - 1
        offset = addresses - ((argument + 1) << _ADDRESS_BITS)
        used = np.broadcast_to(mask, ptrs.shape).astype(bool)
        is_argument = (argument >= 0) & (argument < len(self._names))
        argument = np.where(is_argument, argument, 0)
        outside = used & ~(is_argument & (offset >= 0) & (offset + size <= self._sizes[argument]))
        if outside.any():
            names = " and ".join(f"'{self._names[n]}'" for n in np.unique(argument[outside]))
            raise RuntimeFailure(
                Diagnostic("MG0604", f"the kernel {verb} outside of {names} ({int(outside.sum())} of {int(used.sum())} elements)",
                           hint="a mask is missing or wrong")
            )  # fmt: skip
        return (self._places[argument] + offset).astype(np.uint64)


def _raw_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}") if dtype in _NARROW.values() else dtype


# Patches --------------------------------------------------------------------------------------------------------


class _Patches:
    """A list of replaced attributes. They are restored in reverse order."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        self._old.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def restore(self) -> None:
        while self._old:
            owner, name, value = self._old.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


_CASTS = ("si_to_fp", "ui_to_fp", "fp_to_si", "fp_to_ui", "fp_ext", "fp_trunc", "int_cast", "fp_to_fp")
_BUILDER: dict[str, Any] = {
    **{f"create_{name}": _cast for name in _CASTS},
    "cast_impl": _cast, "binary_op": _binary, "unary_op": _unary, "create_fma": _fma, "create_clampf": _clamp,
    "create_dot": _dot, "create_erf": _erf, "create_extern_elementwise": _extern, "get_bf16": _bf16_constant,
    "create_fabs": lambda self, arg: _unary(self, arg, np.abs),
    "create_rsqrt": lambda self, arg: _unary(self, arg, lambda x: 1 / np.sqrt(x)),
    "create_minnumf": lambda self, lhs, rhs: _binary(self, lhs, rhs, np.fmin),  # a NaN operand loses, as in `min.f32`
    "create_maxnumf": lambda self, lhs, rhs: _binary(self, lhs, rhs, np.fmax),
}  # fmt: skip


def _patch_tensor(tensor: Any, scope: Any) -> None:
    _stock_patch_tensor(tensor, scope)  # Triton's own `__index__` fails for arrays of one element since NumPy 2.4.
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))


def _call_helper(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call another `triton.jit` function from inside of a kernel."""
    kwargs.pop("_semantic", None)
    return rewritten(self.fn)(*args, **kwargs)


@contextmanager
def _interpreting(memory: _Memory) -> Generator[None]:
    patches = _Patches()
    scope: Any = None
    try:
        for name, function in _BUILDER.items():
            patches.set(stock.InterpreterBuilder, name, function)
        patches.set(stock, "_get_np_dtype", _numpy_dtype)
        patches.set(stock, "_patch_lang_tensor", _patch_tensor)
        patches.set(stock, "_interpreter", memory)
        patches.set(JITFunction, "__call__", _call_helper)
        patches.set(stock.ReduceOps, "generic_reduce", interpret_folds.generic_reduce)
        patches.set(stock.ScanOps, "generic_scan", interpret_folds.generic_scan)
        # Both names of the language are globals of this function, so that helpers in triton.language are patched as
        # well.
        scope = stock._patch_lang(types.FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core}))
        _patch_libdevice(scope)
        yield
    finally:
        if scope is not None:
            scope.restore()
        patches.restore()


def _patch_libdevice(scope: Any) -> None:
    """Patch CUDA's libdevice, and Triton's portable libdevice module, which only has empty functions."""
    from triton.language.extra import libdevice as portable
    from triton.language.extra.cuda import libdevice

    stock._patch_builtin(libdevice, stock.interpreter_builder, scope)
    for name in sorted(vars(portable)):
        if inspect.isfunction(getattr(portable, name)) and hasattr(libdevice, name):
            scope.set_attr(portable, name, getattr(libdevice, name))


@lru_cache(maxsize=256)
def rewritten(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with assignments converted to tensors. It has its own globals; the originals are unchanged."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef), "triton.jit takes functions only"
    definition.decorator_list = []
    tree = ast.fix_missing_locations(stock.ASTTransformer().visit(tree))
    code = compile(tree, inspect.getfile(function), "exec")
    namespace: dict[str, Any] = {**function.__globals__, "interpreter_semantic": stock.interpreter_semantic}
    exec(code, namespace)
    return namespace[function.__name__]


# Launch ---------------------------------------------------------------------------------------------------------


def _argument(value: Array | int, address: int) -> Any:
    if isinstance(value, np.ndarray):
        kind = tl.pointer_type(_POINTEES[value.dtype])
        return tl.tensor(stock.TensorHandle(np.array([address], np.uint64), kind), kind)
    small = -(1 << 31) <= value < 1 << 31
    data = np.array([value], np.int32 if small else np.int64)
    kind = tl.int32 if small else tl.int64
    return tl.tensor(stock.TensorHandle(data, kind), kind)


def run(kernel: Any, grid: tuple[int, ...], args: Mapping[str, Array | int], constants: Mapping[str, Any]) -> None:
    """Run all programs of a launch in order. The caller holds the lock.

    Raises:
        RuntimeFailure: MG0604, with the error text of Triton or the kernel.
    """
    arrays = {name: arg for name, arg in args.items() if isinstance(arg, np.ndarray)}
    memory = _Memory(arrays)
    with _interpreting(memory), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of all-NaN rows, which kernels may have
        function = rewritten(kernel.fn)
        values = {name: _argument(arg, memory.pointer(name) if name in arrays else 0) for name, arg in args.items()}
        builder = stock.interpreter_builder
        builder.set_grid_dim(*grid)
        program: tuple[int, ...] = ()
        try:
            for program in np.ndindex(*grid):
                builder.set_grid_idx(*program)
                function(**values, **constants)
        except MeshgenError:
            raise
        except Exception as error:
            raise RuntimeFailure(
                Diagnostic(
                    "MG0604",
                    f"kernel '{kernel.fn.__name__}' failed in the interpreter, program {list(program)} of {list(grid)}: "
                    f"{type(error).__name__}: {error}",
                )
            ) from error
