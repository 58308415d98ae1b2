"""Signatures of operations of chlo whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.operation_signature import signatures_of

SIGNATURES = signatures_of("chlo", {
    "0 -> 1 <value: any>": "constant",
    "1 -> 1": "atan conj square tan",
    "1 float -> 1": "is_inf is_neg_inf is_pos_inf",
    "1 -> 1 <value: number|elements>": "constant_like",
    "2 float -> 1": "broadcast_next_after broadcast_polygamma broadcast_zeta",
    "2 -> 1": "broadcast_add broadcast_and broadcast_atan2 broadcast_compare broadcast_complex "
    "broadcast_divide broadcast_maximum broadcast_minimum broadcast_multiply broadcast_or "
    "broadcast_power broadcast_remainder broadcast_shift_left broadcast_shift_right_arithmetic broadcast_shift_right_logical "
    "broadcast_subtract broadcast_xor",
    "3 -> 1": "broadcast_select",
    "3 -> 1 <precision_config?: array>": "ragged_dot",
    "m -> n {m -> n} <dimension: integer, is_reverse?: flag, is_associative?: flag, operandSegmentSizes?: counts(2), "
    "resultSegmentSizes?: counts(2)>": "scan",
})  # fmt: skip
