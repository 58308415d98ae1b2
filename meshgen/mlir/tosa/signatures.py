"""Signatures of operations of tosa whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.operation_signature import signatures_of

_WINDOW = "stride?: integers(2), kernel?: integers(2), pad?: integers(4)"
_PLANE = "pad?: integers(4), stride?: integers(2), dilation?: integers(2), acc_type?: type, local_bound?: flag"
_SPACE = "pad?: integers(6), stride?: integers(3), dilation?: integers(3), acc_type?: type, local_bound?: flag"
_NAN = "nan_mode?: PROPAGATE|IGNORE"
_ENDS = "min_val?: number, max_val?: number, min_fp?: number, max_fp?: number, min_int?: number, max_int?: number"
_ROUNDING = "rounding_mode?: SINGLE_ROUND|DOUBLE_ROUND|INEXACT_ROUND, double_round?: flag"
_SCALES = f"{_ROUNDING}, scale32?: flag, per_channel?: flag, input_unsigned?: flag, output_unsigned?: flag"
SIGNATURES = signatures_of("tosa", {
    "0 -> 1 <value?: elements, values?: elements>": "const",
    "0 -> 1 <values: elements>": "const_shape",
    "1 -> 1": "abs bitwise_not cast ceil clz cos erf exp floor identity log logical_not reciprocal rsqrt sigmoid sin tanh",
    "1 -> 1 <axis: integer>": "reduce_all reduce_any reduce_prod reduce_product reduce_sum reverse",
    f"1 -> 1 <axis: integer, {_NAN}>": "argmax reduce_max reduce_min",
    f"1 -> 1 <{_ENDS}, {_NAN}>": "clamp",
    f"1 -> 1 <{_WINDOW}, {_NAN}>": "max_pool2d",
    "1 -> 1 <perms: integers>": "transpose",
    f"1..3 -> 1 <{_WINDOW}, acc_type?: type>": "avg_pool2d",
    "1..2 -> 1 <new_shape?: integers>": "reshape",
    "1..2 -> 1 <multiples?: integers>": "tile",
    "1..3 -> 1": "negate",
    "1..3 -> 1 <padding?: integers>": "pad",
    "1..3 -> 1 <start?: integers, size?: integers>": "slice",
    "1..4 -> 1 <mode: NEAREST_NEIGHBOR|BILINEAR, scale?: integers(4), offset?: integers(2), border?: integers(2)>": "resize",
    f"5 -> 1 <{_SCALES}>": "rescale",
    "1.. -> 1 <axis: integer>": "concat",
    "2 -> 1": "add bitwise_and bitwise_or bitwise_xor equal gather greater greater_equal intdiv logical_and logical_left_shift "
    "logical_or logical_right_shift logical_xor pow sub table",
    "2 -> 1 <round?: flag>": "arithmetic_right_shift",
    f"2 -> 1 <{_NAN}>": "maximum minimum",
    "2..3 -> 1 <shift?: integer>": "mul",
    "2..4 -> 1": "matmul",
    "3 -> 1": "scatter select",
    f"3 -> 1 <{_ROUNDING}>": "apply_scale",
    "3..5 -> 1": "fully_connected",
    f"3..5 -> 1 <{_PLANE}>": "conv2d depthwise_conv2d",
    f"3..5 -> 1 <{_SPACE}>": "conv3d",
    "3..5 -> 1 <out_pad?: integers(4), stride?: integers(2), acc_type?: type, local_bound?: flag>": "transpose_conv2d",
    "1 -> 2 <local_bound?: flag>": "rfft2d",
    "2 -> 2 <inverse?: flag, local_bound?: flag>": "fft2d",
    "1+m -> n {_ -> n} {_ -> n}": "cond_if",
    "n -> n {n -> 1} {n -> n}": "while_loop",
    "_ -> 0": "yield",
    "0 -> 0 <sym_name: string|symbol, initial_value?: any, type?: type, var_shape?: any>": "variable",
    "0 -> 1 <name: string|symbol>": "variable.read variable_read",
    "1 -> 0 <name: string|symbol>": "variable.write variable_write",
})  # fmt: skip
