"""The same programs in PyTorch, which `meshgen bench kernels` measures beside its own kernels on a GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Call = Callable[..., Any]
WARM_UP, SAMPLES = 10, 30
WIDE = 8192  # rows and columns of the product that is the ceiling of arithmetic


class Torch:
    """PyTorch on the first GPU."""

    def __init__(self, torch: Any) -> None:
        """`torch`: the package."""
        self._torch = torch

    def timed(self, name: str, args: Sequence[Array]) -> tuple[dict[str, Any], list[Array] | None]:
        """`against` and `against_us`, the faster of eager and compiled; and the results. Nothing and None: it has no such function."""
        function = baseline(self._torch, name)
        if function is None:
            return {}, None
        tensors = [self._tensor(each) for each in args]
        calls: dict[str, Call] = {"torch": function, "torch.compile": self._torch.compile(function)}
        found = {each: self._seconds(call, tensors) * 1e6 for each, call in calls.items()}
        fastest = min(found, key=lambda each: found[each])
        made = function(*tensors)
        results = list(made) if isinstance(made, tuple | list) else [made]
        return {"against": fastest, "against_us": round(found[fastest], 3)}, [
            each.double().cpu().numpy() for each in results
        ]

    def product_seconds(self) -> tuple[float, float]:
        """Operations of a large product of bf16 by cuBLAS, and seconds."""
        x = self._torch.randn(WIDE, WIDE, dtype=self._torch.bfloat16, device="cuda")
        return 2.0 * WIDE**3, self._seconds(self._torch.matmul, [x, x])

    def _seconds(self, call: Call, tensors: Sequence[Any]) -> float:
        """Median of a call."""
        cuda, found = self._torch.cuda, list[float]()
        for number in range(WARM_UP + SAMPLES):
            begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call(*tensors)
            end.record()
            end.synchronize()
            if number >= WARM_UP:
                found.append(begin.elapsed_time(end) * 1e-3)
        return statistics.median(found)

    def _tensor(self, array: Array) -> Any:
        if array.dtype == ml_dtypes.bfloat16:
            return self._torch.from_numpy(array.view(np.int16)).view(self._torch.bfloat16).cuda()
        return self._torch.from_numpy(array).cuda()


def find_torch() -> Torch | None:
    """PyTorch, where it is installed and has a GPU."""
    try:
        torch = import_module("torch")
    except ImportError:
        return None
    return Torch(torch) if torch.cuda.is_available() else None


def baseline(torch: Any, name: str) -> Call | None:
    """The function of torch tensors that computes what a program does; None where PyTorch has no such function."""
    if name.startswith("product-") and name not in ("product-f8", "product-i8", "product-transposed"):
        return torch.matmul
    return _functions(torch).get(name)


def _functions(torch: Any) -> dict[str, Call]:
    f = torch.nn.functional

    def attention(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        heads = (each.transpose(1, 2) for each in (q, k, v))
        found = f.scaled_dot_product_attention(*heads, is_causal=is_causal, enable_gqa=q.shape[2] != k.shape[2])
        return found.transpose(1, 2)

    def rms_norm_of_sum(x: Any, residual: Any, scale: Any) -> Any:
        total = x + residual
        return total, f.rms_norm(total, scale.shape, scale, 1e-6)

    def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
        return f.layer_norm(x.float(), scale.shape, scale, bias).to(x.dtype)

    return {
        "product-transposed": lambda x, w: x.T @ w.T,
        "gelu-and-residual": lambda x, w, bias, residual: f.gelu(x @ w + bias, approximate="tanh") + residual,
        "gated": lambda x, w, v: f.silu(x @ w) * (x @ v),
        "attention-causal": lambda q, k, v: attention(q, k, v, True),
        "attention-grouped": lambda q, k, v: attention(q, k, v, True),
        "attention-whole": lambda q, k, v: attention(q, k, v, False),
        "attention-decode": lambda q, k, v: attention(q, k, v, False),
        "softmax": lambda x: f.softmax(x, -1),
        "softmax-long": lambda x: f.softmax(x, -1),
        "rms-norm": lambda x, scale: f.rms_norm(x, scale.shape, scale, 1e-6),
        "rms-norm-of-sum": rms_norm_of_sum,
        "layer-norm": layer_norm,
        "cross-entropy": lambda logits, labels: f.cross_entropy(logits.float(), labels.long()),
        "look-up": lambda table, ids: table[ids],
        "transpose": lambda x: x.T.contiguous(),
        "cast": lambda x: x.to(torch.bfloat16),
        "column-sums": lambda x: x.sum(0),
        "running-sums": lambda x: x.cumsum(1),
        "arg-max": lambda x: x.argmax(-1).int(),
    }
