"""PyTorch's operations that make tensors of numbers that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.tracer import creation
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, is_float


@aten("full")
def full(size: Sequence[int], value: complex, dtype: str | None = None) -> Tensor:
    default = {bool: "i1", int: "i64", float: "f32", complex: "c64"}[type(value)]
    return creation.full(size, value, dtype or default)


@aten("full_like")
def full_like(x: Tensor, value: complex, dtype: str | None = None) -> Tensor:
    return creation.full(x.shape, value, dtype or x.type.dtype)


@aten("zeros", "empty", "empty.memory_format")
def zeros(size: Sequence[int], dtype: str | None = None, **_: Any) -> Tensor:
    return creation.zeros(size, dtype)


@aten("empty_strided", "empty_permuted")
def empty_strided(size: Sequence[int], stride: Sequence[int], dtype: str | None = None) -> Tensor:
    return creation.zeros(size, dtype)


@aten("new_empty_strided")
def new_empty_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], dtype: str | None = None) -> Tensor:
    return creation.zeros(size, dtype or x.type.dtype)


@aten("zeros_like", "empty_like")
def zeros_like(x: Tensor, dtype: str | None = None, **_: Any) -> Tensor:
    return full_like(x, 0, dtype)


@aten("ones")
def ones(size: Sequence[int], dtype: str | None = None) -> Tensor:
    return creation.ones(size, dtype)


@aten("ones_like")
def ones_like(x: Tensor, dtype: str | None = None) -> Tensor:
    return full_like(x, 1, dtype)


@aten("new_zeros", "new_empty")
def new_zeros(x: Tensor, size: Sequence[int], dtype: str | None = None) -> Tensor:
    return creation.zeros(size, dtype or x.type.dtype)


@aten("new_ones")
def new_ones(x: Tensor, size: Sequence[int], dtype: str | None = None) -> Tensor:
    return creation.ones(size, dtype or x.type.dtype)


@aten("new_full")
def new_full(x: Tensor, size: Sequence[int], value: complex, dtype: str | None = None) -> Tensor:
    return creation.full(size, value, dtype or x.type.dtype)


@aten("scalar_tensor", "tensor")
def scalar_tensor(value: complex, dtype: str | None = None) -> Tensor:
    return full((), value, dtype or "f32")


@aten("arange")
def arange(end: float, dtype: str | None = None) -> Tensor:
    return arange_between(0, end, 1, dtype)


@aten("arange.start", "arange.start_step")
def arange_between(start: float, end: float, step: float = 1, dtype: str | None = None) -> Tensor:
    """Counted as an affine function of the index, so that no table of numbers is in the program."""
    whole = all(isinstance(each, int) for each in (start, end, step))
    dtype = dtype or ("i64" if whole else "f32")
    count = len(range(int(start), int(end), int(step))) if whole else max(0, int(np.ceil((end - start) / step)))
    wide = dtype if dtype in ("f32", "f64") or not is_float(dtype) else "f32"
    index = creation.iota((count,), 0, wide if whole or is_float(wide) else "f64")
    return convert((index if step == 1 else index * step) + start if start or step != 1 else index, dtype)


@aten("linspace")
def linspace(start: Operand, end: Operand, steps: int, dtype: str | None = None) -> Tensor:
    """Return numbers evenly apart; those of tensors are counted from the nearer end, as torch does."""
    if isinstance(start, Tensor) or isinstance(end, Tensor):
        wide = dtype if dtype in ("f64", "c64", "c128") else "f32"
        low, high = (tensor(each, wide) for each in (start, end))
        number = creation.iota((steps,), 0, wide)
        step = (high - low) / max(steps - 1, 1)
        rising, falling = low + step * number, high - step * (steps - 1 - number)
        return convert(where(creation.iota((steps,), 0) < max(steps // 2, steps == 1), rising, falling), dtype or "f32")
    return tensor(np.linspace(start, end, steps, dtype=np.float64).astype(DTYPES[dtype or "f32"]))


@aten("eye", "eye.m")
def eye(rows: int, columns: int | None = None, dtype: str | None = None) -> Tensor:
    return creation.eye(rows, columns, dtype=dtype or "f32")


@aten("tril_indices")
def tril_indices(rows: int, columns: int, offset: int = 0, dtype: str | None = None) -> Tensor:
    return tensor(np.stack(np.tril_indices(rows, offset, columns)).astype(DTYPES[dtype or "i64"]))


@aten("triu_indices")
def triu_indices(rows: int, columns: int, offset: int = 0, dtype: str | None = None) -> Tensor:
    return tensor(np.stack(np.triu_indices(rows, offset, columns)).astype(DTYPES[dtype or "i64"]))


@aten("one_hot")
def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    classes = creation.iota((*x.shape, num_classes), x.ndim, x.type.dtype)
    return convert(expand_dims(x, x.ndim) == classes, "i64")


@aten("masked_fill")
def masked_fill(x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    return where(mask, tensor(value, x.type.dtype), x)


@aten("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "multinomial", "normal", "normal_functional", "poisson",
      "exponential", "uniform", "log_normal", "geometric", "cauchy", "rrelu_with_noise", "rrelu_with_noise_functional")  # fmt: skip
def random(*_: Any, **__: Any) -> Tensor:
    hint = "pass the random numbers as an argument of the model"
    refuse("the model draws random numbers, and PyTorch's are those of its generator", hint, "MG0103")
