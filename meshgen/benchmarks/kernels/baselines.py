"""PyTorch functions that compute the same results, which `meshgen bench kernels` measures beside meshgen's kernels on a
GPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Call = Callable[..., Any]
# number of calls before the samples, and of samples (chosen: torch.compile is done after 10 calls)
WARM_UP, SAMPLES = 10, 30
WIDE = 8192  # rows and columns of the GEMM that measures the peak FLOP/s (chosen: large enough to reach the peak)


class Torch:
    """PyTorch on the first GPU."""

    def __init__(self, torch: Any) -> None:
        """`torch`: the imported package."""
        self._torch = torch

    def timed(self, name: str, args: Sequence[Array]) -> tuple[dict[str, Any], list[Array] | None]:
        """Measure the function of a program, eager and compiled.

        Returns:
            A record with `against` (the name of the faster variant) and `against_us` (its time), and the results of the
            function. Returns ({}, None) if PyTorch has no such function.
        """
        function = baseline(self._torch, name)
        if function is None:
            return {}, None
        tensors = [self._tensor(item) for item in args]
        calls: dict[str, Call] = {"torch": function, "torch.compile": self._torch.compile(function)}
        microseconds = {item: self._seconds(call, tensors) * 1e6 for item, call in calls.items()}
        fastest = min(microseconds, key=lambda item: microseconds[item])
        output = function(*tensors)
        results = list(output) if isinstance(output, tuple | list) else [output]
        return {"against": fastest, "against_us": round(microseconds[fastest], 3)}, [
            item.double().cpu().numpy() for item in results
        ]

    def gemm_flops_and_seconds(self) -> tuple[float, float]:
        """Return the floating-point operations of a large bf16 GEMM, and the seconds that cuBLAS needs for it."""
        x = self._torch.randn(WIDE, WIDE, dtype=self._torch.bfloat16, device="cuda")
        return 2.0 * WIDE**3, self._seconds(self._torch.matmul, [x, x])

    def _seconds(self, call: Call, tensors: Sequence[Any]) -> float:
        """Return the median time of a call in seconds."""
        cuda, samples = self._torch.cuda, list[float]()
        for iteration in range(WARM_UP + SAMPLES):
            begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call(*tensors)
            end.record()
            end.synchronize()
            if iteration >= WARM_UP:
                samples.append(begin.elapsed_time(end) * 1e-3)
        return statistics.median(samples)

    def _tensor(self, array: Array) -> Any:
        if array.dtype == ml_dtypes.bfloat16:
            return self._torch.from_numpy(array.view(np.int16)).view(self._torch.bfloat16).cuda()
        return self._torch.from_numpy(array).cuda()


def find_torch() -> Torch | None:
    """Return PyTorch if it is installed and has a GPU, else None."""
    try:
        torch = import_module("torch")
    except ImportError:
        return None
    return Torch(torch) if torch.cuda.is_available() else None


def baseline(torch: Any, name: str) -> Call | None:
    """Return the function of torch tensors that computes the program `name`, or None if PyTorch has no such function."""
    if name.startswith("product-") and name not in ("product-f8", "product-i8", "product-transposed"):
        return torch.matmul
    return _functions(torch).get(name)


def _functions(torch: Any) -> dict[str, Call]:
    f = torch.nn.functional

    def attention(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        heads = (operand.transpose(1, 2) for operand in (q, k, v))
        output = f.scaled_dot_product_attention(*heads, is_causal=is_causal, enable_gqa=q.shape[2] != k.shape[2])
        return output.transpose(1, 2)

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
