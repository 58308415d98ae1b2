"""Signatures of operations of linalg whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.operation_signature import signatures_of

_SEGMENTS = "operandSegmentSizes?: counts(2)"
_LOOPS = f"{_SEGMENTS}, iterator_types?: array, cast?: any"
_STEPS = f"{_SEGMENTS}, strides?: integers, dilations?: integers, cast?: any"
SIGNATURES = signatures_of("linalg", {
    f"(1, 1) -> 1 {{2 -> 1}}? <indexing_maps?: maps(2), {_LOOPS}>": "abs ceil copy erf exp floor log negf reciprocal round rsqrt sqrt square tanh",
    f"(2, 1) -> 1 {{3 -> 1}}? <indexing_maps?: maps(3), {_LOOPS}>": "add div div_unsigned max min mul powf sub batch_matmul batch_matmul_transpose_a "
    "batch_matmul_transpose_b batch_matvec batch_mmt4d batch_reduce_matmul batch_vecmat dot matmul matmul_transpose_a "
    "matmul_transpose_b matmul_unsigned matvec mmt4d vecmat",
    f"(2, 1) -> 1 {{3 -> 1}}? <indexing_maps: maps(3), {_LOOPS}>": "contract",
    f"(3, 1) -> 1 {{4 -> 1}}? <indexing_maps?: maps(4), {_LOOPS}>": "select",
    f"(4, 1) -> 1 {{5 -> 1}}? <indexing_maps?: maps, {_LOOPS}>": "quantized_batch_matmul quantized_matmul",
    f"(1+n, 1) -> 1 {{2+n -> 1}}? <kind: string, indexing_maps?: maps(2+n), {_LOOPS}>": "elementwise",
    f"(1, 1) -> 1 {{2 -> 1}}? <{_SEGMENTS}>": "fill",
    f"(1, 1) -> 1 {{2 -> 1}}? <permutation: integers, {_SEGMENTS}>": "transpose",
    f"(1, 1) -> 1 {{2 -> 1}}? <dimensions: integers, {_SEGMENTS}>": "broadcast",
    f"(1, 1) -> 1 <dimension: integer, {_SEGMENTS}>": "softmax",
    "(m, n) -> n {m+n -> n} <indexing_maps: maps(m+n)>": "generic",
    f"(n, 1) -> 1 {{_ -> 1}}? <combiner?: string, {_SEGMENTS}>": "map",
    f"(1+n, 1+n) -> 1+n {{2+2n -> 1+n}}? <dimensions: integers, combiner?: string, {_SEGMENTS}>": "reduce",
    f"(2, 1) -> 1 {{3 -> 1}}? <{_STEPS}>": "conv_1d conv_1d_ncw_fcw conv_1d_nwc_wcf conv_2d conv_2d_nchw_fchw conv_2d_ngchw_fgchw "
    "conv_2d_ngchw_gfchw conv_2d_nhwc_fhwc conv_2d_nhwc_hwcf conv_2d_nhwgc_gfhwc conv_3d conv_3d_ncdhw_fcdhw conv_3d_ndhwc_dhwcf "
    "depthwise_conv_1d_ncw_cw depthwise_conv_1d_nwc_wc depthwise_conv_1d_nwc_wcm depthwise_conv_2d_nchw_chw "
    "depthwise_conv_2d_nhwc_hwc depthwise_conv_2d_nhwc_hwcm depthwise_conv_3d_ncdhw_cdhw depthwise_conv_3d_ndhwc_dhwc "
    "depthwise_conv_3d_ndhwc_dhwcm pooling_nchw_max pooling_nchw_sum pooling_ncw_max pooling_ncw_sum pooling_ndhwc_max "
    "pooling_ndhwc_min pooling_ndhwc_sum pooling_nhwc_max pooling_nhwc_max_unsigned pooling_nhwc_min pooling_nhwc_min_unsigned "
    "pooling_nhwc_sum pooling_nwc_max pooling_nwc_max_unsigned pooling_nwc_min pooling_nwc_min_unsigned pooling_nwc_sum",
    f"(4, 1) -> 1 {{5 -> 1}}? <{_STEPS}>": "conv_2d_nchw_fchw_q conv_2d_ngchw_gfchw_q conv_2d_nhwc_fhwc_q conv_2d_nhwc_hwcf_q "
    "conv_3d_ndhwc_dhwcf_q depthwise_conv_2d_nhwc_hwc_q depthwise_conv_2d_nhwc_hwcm_q",
    "2..3 -> 1": "pack",
    "2 -> 1": "unpack",
    "_ -> 0": "yield",
})  # fmt: skip
