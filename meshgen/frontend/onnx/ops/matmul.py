"""Matrix multiplication, and convolutions with features in dim 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshgen.frontend.onnx.ops.table import MICROSOFT, Call, enter_rows, enter_traced, op
from meshgen.frontend.tracer.convolutions import conv_general_dilated, conv_transposed
from meshgen.frontend.tracer.einsum import einsum
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import matrix_transpose
from meshgen.frontend.tracer.tensor import Tensor

Pairs = list[tuple[int, int]]
_NAMED = {"SAME_UPPER": "SAME", "SAME_LOWER": "SAME_LOWER", "VALID": "VALID"}


def _oriented_matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """Return alpha * a @ b. The attributes `transA` and `transB` transpose the operands first."""
    product = matmul(matrix_transpose(a) if call["transA"] else a, matrix_transpose(b) if call["transB"] else b)
    return product if call["alpha"] in (None, 1) else product * call["alpha"]


@op("Gemm")
def gemm(call: Call, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    product = _oriented_matmul(call, a, b)
    if c is None or call["beta"] == 0:
        return product
    return product + (c if call["beta"] == 1 else c * call["beta"])


def _dims(count: int) -> tuple[str, str, str]:
    """Return the dim orders of image, kernel and result for `count` spatial dims, such as ("NC01", "OI01", "NC01")."""
    spatial = "0123456789"[:count]
    return f"NC{spatial}", f"OI{spatial}", f"NC{spatial}"


def padding_of(call: Call, count: int) -> str | Pairs:
    """Return the padding mode of a call, or (rows before, rows after) for each spatial dim."""
    if (mode := call["auto_pad"] or "NOTSET") != "NOTSET":
        return _NAMED[mode]
    pads = call["pads"] or [0] * (2 * count)
    return list(zip(pads[:count], pads[count:], strict=True))


def _require_kernel(call: Call, x: Tensor, w: Tensor) -> None:
    """Raise ProgramError MG0104 if the image `x`, the weights `w` and the attributes do not fit each other."""
    taps = list(w.shape[2:])
    if x.ndim != w.ndim or x.ndim < 3:
        refuse(f"an image of rank {x.ndim} does not fit weights of rank {w.ndim}")
    if call["kernel_shape"] and list(call["kernel_shape"]) != taps:
        refuse(f"kernel_shape is {list(call['kernel_shape'])}, but the weights have a kernel of {taps}")
    for name, count in (("strides", len(taps)), ("dilations", len(taps)), ("pads", 2 * len(taps))):
        if call[name] and len(call[name]) != count:
            refuse(f"{name} has {len(call[name])} numbers, but {len(taps)} spatial dims need {count}")


def convolution(call: Call, x: Tensor, w: Tensor) -> Tensor:
    _require_kernel(call, x, w)
    count = x.ndim - 2
    strides, dilations = call["strides"] or [1] * count, call["dilations"] or [1] * count
    return conv_general_dilated(x, w, strides, padding_of(call, count), None, dilations, _dims(count), call["group"] or 1)  # fmt: skip


def with_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    """Add a bias with one number per feature."""
    return x if bias is None else x + bias.reshape(-1, *[1] * (x.ndim - 2))


@op("ConvTranspose")
def conv_transpose(call: Call, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    _require_kernel(call, x, w)
    count = x.ndim - 2
    strides, dilations = call["strides"] or [1] * count, call["dilations"] or [1] * count
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    pads, output_padding = _transposed_padding(call, x.shape[2:], spans, strides)
    return with_bias(
        conv_transposed(x, w, strides, pads, output_padding, dilations, call["group"] or 1, _dims(count)), bias
    )


def _transposed_padding(call: Call, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]) -> tuple[Pairs, list[int]]:  # fmt: skip
    """Return the rows to crop before and after each dim of a transposed convolution, and the rows to append.

    `spans` are the sizes of the dilated kernel.
    """
    count = len(sizes)
    output_padding: list[int] = list(call["output_padding"] or [0] * count)
    mode = call["auto_pad"] or "NOTSET"
    output_sizes: Any = call["output_shape"] or ([n * s for n, s in zip(sizes, strides, strict=True)] if "SAME" in mode else None)  # fmt: skip
    if output_sizes is None:
        pads = padding_of(call, count)
        return ([(0, 0)] * count if isinstance(pads, str) else pads), output_padding
    pairs: Pairs = []
    for n, step, span, extra_rows, size in zip(
        sizes, strides, spans, output_padding, output_sizes[-count:], strict=True
    ):
        total = step * (n - 1) + extra_rows + span - size
        half = total // 2 if mode == "SAME_UPPER" else total - total // 2
        pairs.append((half, total - half))
    return pairs, output_padding


enter_traced("MatMul=matmul Det=linalg.det")
enter_rows({
    "Einsum": lambda call, *operands: einsum(call["equation"], *operands),
    "Conv": lambda call, x, w, bias=None: with_bias(convolution(call, x, w), bias),
})  # fmt: skip
enter_rows({"FusedMatMul": _oriented_matmul}, domain=MICROSOFT)
