"""Signatures of operations, by dialect, where their definitions in xDSL leave them open; `operation_signature.py` has the notation.

`operation.verify` checks a definition; `verifying.py` then checks these lines, before anything is converted.
So importers may rely on operands, results, regions and properties. Each signature is followed by its operations.
"""

from __future__ import annotations

from meshgen.mlir.operation_signature import Signature

_FLAGS = (
    "fastmath?: any, overflowFlags?: any, roundingmode?: string|integer"  # fast-math and overflow flags are ignored
)
_GROUPS = "replica_groups: any, channel_handle?: stablehlo.channel_handle"
_ON_DEVICES = f"{_GROUPS}, use_global_device_ids?: unit"
_CROSSING = "channel_handle: stablehlo.channel_handle, source_target_pairs?: any, is_host_transfer?: any"
_WINDOW = "stride?: integers(2), kernel?: integers(2), pad?: integers(4)"
_PLANE = "pad?: integers(4), stride?: integers(2), dilation?: integers(2), acc_type?: type, local_bound?: flag"
_SPACE = "pad?: integers(6), stride?: integers(3), dilation?: integers(3), acc_type?: type, local_bound?: flag"
_NAN = "nan_mode?: PROPAGATE|IGNORE"
_ENDS = "min_val?: number, max_val?: number, min_fp?: number, max_fp?: number, min_int?: number, max_int?: number"
_ROUNDING = "rounding_mode?: SINGLE_ROUND|DOUBLE_ROUND|INEXACT_ROUND, double_round?: flag"
_SCALES = f"{_ROUNDING}, scale32?: flag, per_channel?: flag, input_unsigned?: flag, output_unsigned?: flag"
_SEGMENTS = "operandSegmentSizes?: counts(2)"
_LOOPS = f"{_SEGMENTS}, iterator_types?: array, cast?: any"
_SLICES = (
    "static_offsets: integers(i), static_offsets: open(o), static_sizes: integers(i), static_sizes: open(z), static_strides: integers(i), "
    "static_strides: open(s)"
)
_STEPS = f"{_SEGMENTS}, strides?: integers, dilations?: integers, cast?: any"

_ROWS: dict[str, dict[str, str]] = {
    "affine": {"n -> 1 <map: map(n)>": "apply max min"},
    "arith": {
        "0 -> 1 <value: number|elements>": "constant",
        f"1 -> 1 <{_FLAGS}>": "bitcast",
        f"1 float -> 1 float <{_FLAGS}>": "extf negf truncf",
        f"1 float -> 1 integer <{_FLAGS}>": "fptosi fptoui",
        f"1 integer -> 1 float <{_FLAGS}>": "sitofp uitofp",
        f"1 integer -> 1 integer <{_FLAGS}>": "extsi extui index_cast index_castui trunci",
        f"2 float -> 1 <{_FLAGS}>": "addf divf maximumf maxnumf minimumf minnumf mulf remf subf",
        f"2 integer -> 1 <{_FLAGS}>": "addi andi ceildivsi ceildivui divsi divui floordivsi maxsi maxui minsi minui muli ori remsi remui shli "
        "shrsi shrui subi xori",
        f"2 float -> 1 <predicate: string|integer, {_FLAGS}>": "cmpf",
        f"2 integer -> 1 <predicate: string|integer, {_FLAGS}>": "cmpi",
        f"2 integer -> 2 <{_FLAGS}>": "addui_extended mulsi_extended mului_extended",
        f"3 -> 1 <{_FLAGS}>": "select",
    },
    "bufferization": {"_ -> 1": "alloc_tensor", "2 -> 0..1": "materialize_in_destination"},
    "chlo": {
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
    },
    "func": {"_ -> _ <callee: symbol>": "call"},
    "index": {
        "0 -> 1 integer <value: integer>": "constant bool.constant",
        f"1 integer -> 1 integer <{_FLAGS}>": "casts castu",
        f"2 integer -> 1 <{_FLAGS}>": "add and ceildivs ceildivu divs divu floordivs maxs maxu mins minu mul or rems remu shl shrs shru sub xor",
        f"2 integer -> 1 <predicate: string|integer, {_FLAGS}>": "cmp",
    },
    "linalg": {
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
    },
    "math": {
        f"1 float -> 1 <{_FLAGS}>": "absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor isfinite isinf isnan "
        "isnormal log log10 log1p log2 round roundeven rsqrt sin sinh sqrt tan tanh trunc",
        f"1 float -> 2 <{_FLAGS}>": "sincos",
        f"1 integer -> 1 <{_FLAGS}>": "absi ctlz ctpop cttz",
        f"2 -> 1 float <{_FLAGS}>": "fpowi",
        f"2 float -> 1 <{_FLAGS}>": "atan2 copysign powf",
        f"2 integer -> 1 <{_FLAGS}>": "ipowi",
        f"3 float -> 1 <{_FLAGS}>": "clampf fma",
    },
    "scf": {
        "1.. -> 0": "condition",
        "0 -> n {0 -> n}": "execute_region",
        "3+n -> n {1+n -> n}": "for",
        "(l, u, s, n) -> n {i+n -> 0} <staticLowerBound: integers(i), staticLowerBound: open(l), staticUpperBound: integers(i), "
        "staticUpperBound: open(u), staticStep: integers(i), staticStep: open(s), mapping?: any>": "forall",
        "0 -> 0 {0}": "forall.in_parallel",
        "1 -> n {0 -> n} {0 -> n}?": "if",
        "1 -> n {0 -> n}+": "index_switch",
        "(i, i, i, n) -> n {i -> n}": "parallel",
        "n -> 0 {2 -> 1}n": "reduce",
        "n -> m {n -> 1+m} {m -> n}": "while",
        "_ -> 0": "yield",
    },
    "sdy": {"n -> m {n -> m}": "manual_computation named_computation"},
    "shard": {
        "0 -> _": "grid_shape process_multi_index",
        "0..1 -> 2": "transfer_recv",
        "1..2 -> 1": "transfer_send",
        "1.. -> 1": "broadcast gather recv reduce scatter send update_halo",
        "1.. -> _": "shard_shape",
        "_ -> 1": "sharding",
        "_ -> 2": "neighbors_linear_indices",
        "n -> n": "grouped",
    },
    "stablehlo": {
        "0 -> 1": "create_token iota",
        "0 -> 1 <value: any>": "constant",
        "1 -> 1": "broadcast_in_dim dynamic_iota get_dimension_size get_tuple_element reshape reverse transpose",
        "1 -> 1 <result_accuracy?: any>": "cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh",
        "1 -> _": "async_done",
        "1 -> n {0 -> n}+": "case",
        "1 -> n {0 -> n} {0 -> n}": "if",
        "2 -> 1": "dynamic_reshape pad set_dimension_size",
        "2 -> 1 <known_expanding_dimensions?: any, known_nonexpanding_dimensions?: any>": "dynamic_broadcast_in_dim",
        "2 -> 1 <precision_config?: array, algorithm?: any>": "dot dot_general",
        "2 -> 1 <precision_config?: array>": "convolution",
        "3 -> 1": "rng",
        "3 -> 1 {2 -> 1} {2 -> 1}": "select_and_scatter",
        "3 -> 1 <precision_config?: array>": "dynamic_conv",
        "3 -> 3": "batch_norm_training",
        "4 -> 1": "real_dynamic_slice",
        "5 -> 1": "batch_norm_inference dynamic_pad",
        "5 -> 3": "batch_norm_grad",
        "1.. -> 1": "concatenate dynamic_slice",
        "2.. -> 1": "dynamic_update_slice",
        "_ -> 1": "after_all tuple",
        "m -> 1 {m -> n}": "async_start",
        "n -> n": "optimization_barrier",
        "n -> n {n -> 1} {n -> n}": "while",
        "1+n -> 1 {1+n -> 1} <dimensions?: integers>": "map",
        "1+n -> 1+n {2+2n -> 1}": "sort",
        "2+2n -> 1+n {2+2n -> 1+n}": "reduce reduce_window",
        "7+2n -> 1+n {2+2n -> 1+n}": "dynamic_reduce_window",
        "3+2n -> 1+n {2+2n -> 1+n}": "scatter",
        f"1+n -> 1+n <all_gather_dim: integer, {_ON_DEVICES}>": "all_gather",
        f"1+n -> 1+n {{2 -> 1}} <{_ON_DEVICES}>": "all_reduce collective_reduce",
        f"1+n -> 1+n {{2 -> 1}} <scatter_dimension: integer, {_ON_DEVICES}>": "reduce_scatter",
        f"1+n -> 1+n <split_dimension: integer, concat_dimension: integer, split_count: integer, {_GROUPS}>": "all_to_all",
        f"1+n -> 1+n <has_dynamic_root?: any, {_GROUPS}>": "collective_broadcast",
        "1+n -> 1+n <source_target_pairs: any, channel_handle?: stablehlo.channel_handle>": "collective_permute",
        f"1 -> 1+n <{_CROSSING}>": "recv",
        f"1+n -> 1 <{_CROSSING}>": "send",
        "_ -> _ <decomposition: symbol, composite_name?: any, composite_attributes?: any, version?: any, has_side_effect?: any, "
        "composite_regions?: any>": "composite",
        "_ -> _ <has_side_effect?: any, backend_config?: any, api_version?: any, called_computations?: any, operand_layouts?: any, "
        "result_layouts?: any, output_operand_aliases?: any>": "custom_call",
    },
    "tensor": {
        f"1 -> 1 <{_FLAGS}>": "bitcast",
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
    },
    "tosa": {
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
    },
}  # fmt: skip

SIGNATURES: dict[str, Signature] = {
    f"{dialect}.{word}": signature
    for dialect, rows in _ROWS.items()
    for signature, words in ((Signature.read(text), words) for text, words in rows.items())
    for word in words.split()
}
