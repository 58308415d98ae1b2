"""PyTorch operations that create tensors from constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.tracer import creation
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, is_float

_DEFAULT = {bool: "i1", int: "i64", float: "f32", complex: "c64"}

enter_rows({
    "full": lambda size, value, dtype=None: creation.full(size, value, dtype or _DEFAULT[type(value)]),
    "full_like": lambda x, value, dtype=None: creation.full(x.shape, value, dtype or x.type.dtype),
    "new_full": lambda x, size, value, dtype=None: creation.full(size, value, dtype or x.type.dtype),
    "zeros empty empty.memory_format": lambda size, dtype=None, **_: creation.zeros(size, dtype),
    "empty_strided empty_permuted": lambda size, stride, dtype=None: creation.zeros(size, dtype),
    "new_empty_strided": lambda x, size, stride, dtype=None: creation.zeros(size, dtype or x.type.dtype),
    "zeros_like empty_like": lambda x, dtype=None, **_: creation.full(x.shape, 0, dtype or x.type.dtype),
    "new_zeros new_empty": lambda x, size, dtype=None: creation.zeros(size, dtype or x.type.dtype),
    "ones": creation.ones,
    "ones_like": lambda x, dtype=None: creation.full(x.shape, 1, dtype or x.type.dtype),
    "new_ones": lambda x, size, dtype=None: creation.ones(size, dtype or x.type.dtype),
    "scalar_tensor tensor": lambda value, dtype=None: creation.full((), value, dtype or "f32"),
    "arange": lambda end, dtype=None: arange_between(0, end, 1, dtype),
    "eye eye.m": lambda rows, columns=None, dtype=None: creation.eye(rows, columns, dtype=dtype),
    "tril_indices": lambda rows, columns, offset=0, dtype=None: _index_pairs(np.tril_indices(rows, offset, columns), dtype),
    "triu_indices": lambda rows, columns, offset=0, dtype=None: _index_pairs(np.triu_indices(rows, offset, columns), dtype),
    "masked_fill": lambda x, mask, value: where(mask, tensor(value, x.type.dtype), x),
})  # fmt: skip


def _index_pairs(indices: Any, dtype: str | None) -> Tensor:
    return tensor(np.asarray(indices).astype(DTYPES[dtype or "i64"]))


@aten("arange.start", "arange.start_step")
def arange_between(start: float, end: float, step: float = 1, dtype: str | None = None) -> Tensor:
    """Return start, start + step, ... below end. The range is computed from an iota and is not stored in the program."""
    are_integers = all(isinstance(value, int) for value in (start, end, step))
    dtype = dtype or ("i64" if are_integers else "f32")
    count = len(range(int(start), int(end), int(step))) if are_integers else max(0, int(np.ceil((end - start) / step)))
    wide = dtype if dtype in ("f32", "f64") or not is_float(dtype) else "f32"
    index = creation.iota((count,), 0, wide if are_integers or is_float(wide) else "f64")
    return convert((index if step == 1 else index * step) + start if start or step != 1 else index, dtype)


@aten("linspace")
def linspace(start: Operand, end: Operand, steps: int, dtype: str | None = None) -> Tensor:
    """Return evenly spaced numbers. If `start` or `end` is a tensor, each number is computed from the nearer of both.

    Torch does the same.
    """
    if isinstance(start, Tensor) or isinstance(end, Tensor):
        wide = dtype if dtype in ("f64", "c64", "c128") else "f32"
        low, high = (tensor(value, wide) for value in (start, end))
        index = creation.iota((steps,), 0, wide)
        step = (high - low) / max(steps - 1, 1)
        rising, falling = low + step * index, high - step * (steps - 1 - index)
        return convert(where(creation.iota((steps,), 0) < max(steps // 2, steps == 1), rising, falling), dtype or "f32")
    return tensor(np.linspace(start, end, steps, dtype=np.float64).astype(DTYPES[dtype or "f32"]))


@aten("one_hot")
def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    classes = creation.iota((*x.shape, num_classes), x.ndim, x.type.dtype)
    return convert(x[..., None] == classes, "i64")


@aten("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "multinomial", "normal", "normal_functional", "poisson",
      "exponential", "uniform", "log_normal", "geometric", "cauchy", "rrelu_with_noise", "rrelu_with_noise_functional")  # fmt: skip
def random(*_: Any, **__: Any) -> Tensor:
    hint = "pass the random numbers as an argument of the model"
    refuse("the model draws random numbers, which would differ from those of PyTorch's generator", hint, "MG0103")
