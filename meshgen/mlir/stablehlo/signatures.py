"""Signatures of operations of stablehlo whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.operation_signature import signatures_of

_GROUPS = "replica_groups: any, channel_handle?: stablehlo.channel_handle"
_ON_DEVICES = f"{_GROUPS}, use_global_device_ids?: unit"
_CROSSING = "channel_handle: stablehlo.channel_handle, source_target_pairs?: any, is_host_transfer?: any"
SIGNATURES = signatures_of("stablehlo", {
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
    "_ -> _ <has_side_effect?: flag, backend_config?: any, api_version?: integer, called_computations?: any, "
    "operand_layouts?: array, result_layouts?: array, output_operand_aliases?: array>": "custom_call",
})  # fmt: skip
