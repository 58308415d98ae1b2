"""Signatures of operations of tensor and bufferization whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.arith.signatures import FLAGS
from meshgen.mlir.operation_signature import signatures_of

_SLICES = (
    "static_offsets: integers(i), static_offsets: open(o), static_sizes: integers(i), static_sizes: open(z), static_strides: integers(i), "
    "static_strides: open(s)"
)
SIGNATURES = (
    signatures_of("tensor", {
        f"1 -> 1 <{FLAGS}>": "bitcast",
        "1.. -> 1": "concat extract from_elements splat",
        "(1, n) -> 1 <static_output_shape: open(n)>": "expand_shape",
        f"(1, o, z, s) -> 1 <{_SLICES}>": "extract_slice",
        "(1, l, h) -> 1 {i -> 1} <static_low: integers(i), static_low: open(l), static_high: integers(i), static_high: open(h)>": "pad",
        f"(1, 1, o, z, s) -> 0 <{_SLICES}>": "parallel_insert_slice",
        "2.. -> 1": "insert",
        f"(1, 1, o, z, s) -> 1 <{_SLICES}>": "insert_slice",
        "_ -> 0": "yield",
        "_ -> 1": "empty",
        "_ -> 1 {_ -> 1}": "generate",
    })
    | signatures_of("bufferization", {"_ -> 1": "alloc_tensor", "2 -> 0..1": "materialize_in_destination"})
)  # fmt: skip
