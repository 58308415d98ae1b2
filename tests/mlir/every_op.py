"""A small valid program for each supported op of StableHLO, CHLO, Shardy and `sched`. Mutation tests change them."""

from __future__ import annotations

F, N, B, C = "tensor<4x6xf32>", "tensor<4x6xi32>", "tensor<4x6xi1>", "tensor<4x6xcomplex<f32>>"
ARGS = f"%x: {F}, %y: {F}, %i: {N}, %j: {N}, %b: {B}, %p: tensor<i1>, %z: tensor<f32>, %n: tensor<i32>, %c: {C}, %s: tensor<6x6xf32>, %v: tensor<6xf32>, %k: tensor<2x2x1x1xf32>, %a: tensor<1x4x4x1xf32>, %t: tensor<2xi32>, %d: tensor<3x1xi32>"


def _fold(op: str = "add", dtype: str = "f32") -> str:
    kind = f"tensor<{dtype}>"
    return f"({{\n^bb0(%e: {kind}, %f: {kind}):\n  %g = stablehlo.{op} %e, %f : {kind}\n  stablehlo.return %g : {kind}\n}})"


def _chosen(direction: str = "GE") -> str:
    return f"({{\n^bb0(%e: tensor<f32>, %f: tensor<f32>):\n  %g = stablehlo.compare {direction}, %e, %f : (tensor<f32>, tensor<f32>) -> tensor<i1>\n  stablehlo.return %g : tensor<i1>\n}})"


def _op(name: str, operands: str, types: str, result: str, properties: str = "", regions: str = "") -> tuple[str, str]:
    inside = f" <{{{properties}}}>" if properties else ""
    return f'%r = "{name}"({operands}){inside} {regions}: ({types}) -> {result}', result


def _unary(names: str, value: str, kind: str, dialect: str = "stablehlo") -> dict[str, tuple[str, str]]:
    return {f"{dialect}.{name}": _op(f"{dialect}.{name}", value, kind, kind) for name in names.split()}


def _binary(names: str, values: str, kind: str, dialect: str = "stablehlo") -> dict[str, tuple[str, str]]:
    return {f"{dialect}.{name}": _op(f"{dialect}.{name}", values, f"{kind}, {kind}", kind) for name in names.split()}


_DOT = "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
_GATHER = "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>"
_SCATTER = "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
_CONV = "batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>"
_NORM = "epsilon = 1.0e-3 : f32, feature_index = 1 : i64"
_WINDOW = "window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>"
_PAD = "padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>"

# Value: the line that defines %r, and the type of %r.
OPS: dict[str, tuple[str, str]] = {
    **_unary("abs negate exponential exponential_minus_one log log_plus_one logistic tanh sqrt rsqrt cbrt sine cosine tan "
             "floor ceil round_nearest_even round_nearest_afz sign", "%x", F),
    **_unary("not popcnt count_leading_zeros", "%i", N),
    **_binary("add subtract multiply divide remainder power maximum minimum atan2", "%x, %y", F),
    **_binary("and or xor shift_left shift_right_logical shift_right_arithmetic", "%i, %j", N),
    **_unary("erf erf_inv erfc lgamma digamma bessel_i1e sinh cosh asin acos asinh acosh atanh square atan tan conj", "%x", F, "chlo"),
    **_binary("polygamma zeta next_after broadcast_add broadcast_subtract broadcast_power", "%x, %y", F, "chlo"),
    "chlo.mulhi": _op("chlo.mulhi", "%i, %j", f"{N}, {N}", N),
    "chlo._asin_acos_kernel": _op("chlo._asin_acos_kernel", "%c", C, C),
    "chlo.is_inf": _op("chlo.is_inf", "%x", F, B),
    "chlo.constant_like": _op("chlo.constant_like", "%x", F, F, "value = 1.0 : f32"),
    "chlo.broadcast_select": _op("chlo.broadcast_select", "%b, %x, %y", f"{B}, {F}, {F}", F),
    "chlo.broadcast_complex": _op("chlo.broadcast_complex", "%x, %y", f"{F}, {F}", C),
    "chlo.top_k": ('%r, %q = "chlo.top_k"(%x) <{k = 2 : i64}> : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)', "tensor<4x2xf32>"),
    "convert": _op("stablehlo.convert", "%x", F, N),
    "bitcast_convert": _op("stablehlo.bitcast_convert", "%x", F, N),
    "bitcast_narrow": _op("stablehlo.bitcast_convert", "%x", F, "tensor<4x6x2xi16>"),
    "is_finite": _op("stablehlo.is_finite", "%x", F, B),
    "real": _op("stablehlo.real", "%c", C, F),
    "imag": _op("stablehlo.imag", "%c", C, F),
    "complex": _op("stablehlo.complex", "%x, %y", f"{F}, {F}", C),
    "select": _op("stablehlo.select", "%b, %x, %y", f"{B}, {F}, {F}", F),
    "select_scalar": _op("stablehlo.select", "%p, %x, %y", f"tensor<i1>, {F}, {F}", F),
    "clamp": _op("stablehlo.clamp", "%z, %x, %y", f"tensor<f32>, {F}, {F}", F),
    "compare": _op("stablehlo.compare", "%x, %y", f"{F}, {F}", B,
                   "comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>"),
    "reduce_precision": _op("stablehlo.reduce_precision", "%x", F, F, "exponent_bits = 5 : i32, mantissa_bits = 10 : i32"),
    "reduce": _op("stablehlo.reduce", "%x, %z", f"{F}, tensor<f32>", "tensor<4xf32>", "dimensions = array<i64: 1>", _fold()),
    "reduce_region": _op("stablehlo.reduce", "%x, %z", f"{F}, tensor<f32>", "tensor<4xf32>", "dimensions = array<i64: 1>",
                         "({\n^bb0(%e: tensor<f32>, %f: tensor<f32>):\n  %g = stablehlo.add %e, %f : tensor<f32>\n  %h = stablehlo.tanh %g : tensor<f32>\n  stablehlo.return %h : tensor<f32>\n})"),
    "reduce_pair": ('%r, %q = "stablehlo.reduce"(%x, %i, %z, %n) <{dimensions = array<i64: 0>}> ({\n^bb0(%e: tensor<f32>, %h: tensor<i32>, %f: tensor<f32>, %l: tensor<i32>):\n'
                    "  %g = stablehlo.add %e, %f : tensor<f32>\n  %m = stablehlo.add %h, %l : tensor<i32>\n  stablehlo.return %g, %m : tensor<f32>, tensor<i32>\n})"
                    f" : ({F}, {N}, tensor<f32>, tensor<i32>) -> (tensor<6xf32>, tensor<6xi32>)", "tensor<6xf32>"),
    "map": _op("stablehlo.map", "%x, %y", f"{F}, {F}", F, "dimensions = array<i64: 0, 1>", _fold("multiply")),
    "reduce_window": _op("stablehlo.reduce_window", "%x, %z", f"{F}, tensor<f32>", "tensor<4x4xf32>",
                         f"{_WINDOW}, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, {_PAD}", _fold()),
    "select_and_scatter": _op("stablehlo.select_and_scatter", "%x, %u, %z", f"{F}, tensor<4x3xf32>, tensor<f32>", F,
                              _WINDOW, f"{_chosen()[:-1]}, {_fold()[1:]}"),
    "sort": _op("stablehlo.sort", "%x", F, F, "dimension = 1 : i64, is_stable = true", _chosen("LT")),
    "dot_general": _op("stablehlo.dot_general", "%x, %s", f"{F}, tensor<6x6xf32>", F,
                       f"{_DOT}, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]"),
    "dot_batch": _op("stablehlo.dot_general", "%x, %y", f"{F}, {F}", "tensor<4xf32>",
                     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>"),
    "dot": _op("stablehlo.dot", "%x, %s", f"{F}, tensor<6x6xf32>", F),
    "einsum": _op("stablehlo.einsum", "%x, %s", f"{F}, tensor<6x6xf32>", F, 'einsum_config = "ab,bc->ac"'),
    "unary_einsum": _op("stablehlo.unary_einsum", "%x", F, "tensor<4xf32>", 'einsum_config = "ab->a"'),
    "gather": _op("stablehlo.gather", "%x, %d", f"{F}, tensor<3x1xi32>", "tensor<3x6xf32>",
                  f"{_GATHER}, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>"),
    "gather_batch": _op("stablehlo.gather", "%x, %q", f"{F}, tensor<4x2x1xi32>", "tensor<4x2xf32>",
                        "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>"),
    "scatter": _op("stablehlo.scatter", "%x, %d, %q", f"{F}, tensor<3x1xi32>, tensor<3x6xf32>", F,
                   f"{_SCATTER}, indices_are_sorted = false, unique_indices = false", _fold()),
    "torch_index_select": _op("stablehlo.torch_index_select", "%x, %t", f"{F}, tensor<2xi32>", "tensor<4x2xf32>",
                              "dim = 1 : i64, batch_dims = 0 : i64"),
    "convolution": _op("stablehlo.convolution", "%a, %k", "tensor<1x4x4x1xf32>, tensor<2x2x1x1xf32>", "tensor<1x3x3x1xf32>", _CONV),
    "convolution_padded": _op("stablehlo.convolution", "%a, %k", "tensor<1x4x4x1xf32>, tensor<2x2x1x1xf32>", "tensor<1x5x3x1xf32>",
                              f"{_CONV}, padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>, window_reversal = array<i1: false, true>"),
    "dynamic_conv": _op("stablehlo.dynamic_conv", "%a, %k, %q", "tensor<1x4x4x1xf32>, tensor<2x2x1x1xf32>, tensor<2x2xi32>", "tensor<1x?x?x1xf32>", _CONV),
    "broadcast_in_dim": _op("stablehlo.broadcast_in_dim", "%v", "tensor<6xf32>", F, "broadcast_dimensions = array<i64: 1>"),
    "broadcast": _op("stablehlo.broadcast", "%v", "tensor<6xf32>", F, "broadcast_sizes = array<i64: 4>"),
    "transpose": _op("stablehlo.transpose", "%x", F, "tensor<6x4xf32>", "permutation = array<i64: 1, 0>"),
    "reshape": _op("stablehlo.reshape", "%x", F, "tensor<3x8xf32>"),
    "reverse": _op("stablehlo.reverse", "%x", F, F, "dimensions = array<i64: 1>"),
    "slice": _op("stablehlo.slice", "%x", F, "tensor<2x3xf32>",
                 "start_indices = array<i64: 0, 1>, limit_indices = array<i64: 4, 4>, strides = array<i64: 2, 1>"),
    "pad": _op("stablehlo.pad", "%x, %z", f"{F}, tensor<f32>", "tensor<6x11xf32>",
               "edge_padding_low = array<i64: 1, 0>, edge_padding_high = array<i64: 1, 0>, interior_padding = array<i64: 0, 1>"),
    "dynamic_slice": _op("stablehlo.dynamic_slice", "%x, %n, %n", f"{F}, tensor<i32>, tensor<i32>", "tensor<2x3xf32>", "slice_sizes = array<i64: 2, 3>"),
    "dynamic_update_slice": _op("stablehlo.dynamic_update_slice", "%x, %q, %n, %n", f"{F}, tensor<2x3xf32>, tensor<i32>, tensor<i32>", F),
    "iota": _op("stablehlo.iota", "", "", N, "iota_dimension = 1 : i64"),
    "concatenate": _op("stablehlo.concatenate", "%x, %y", f"{F}, {F}", "tensor<8x6xf32>", "dimension = 0 : i64"),
    "constant": _op("stablehlo.constant", "", "", "tensor<2x2xf32>", "value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>"),
    "splat": _op("stablehlo.constant", "", "", F, f"value = dense<1.0> : {F}"),
    "dynamic_reshape": _op("stablehlo.dynamic_reshape", "%x, %t", f"{F}, tensor<2xi32>", "tensor<?x8xf32>"),
    "dynamic_broadcast_in_dim": _op("stablehlo.dynamic_broadcast_in_dim", "%v, %t", "tensor<6xf32>, tensor<2xi32>", "tensor<?x6xf32>", "broadcast_dimensions = array<i64: 1>"),
    "dynamic_iota": _op("stablehlo.dynamic_iota", "%t", "tensor<2xi32>", "tensor<?x?xi32>", "iota_dimension = 1 : i64"),
    "dynamic_pad": _op("stablehlo.dynamic_pad", "%x, %z, %t, %t, %t", f"{F}, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>", "tensor<?x?xf32>"),
    "real_dynamic_slice": _op("stablehlo.real_dynamic_slice", "%x, %t, %t, %t", f"{F}, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>", "tensor<?x?xf32>"),
    "dynamic_gather": _op("stablehlo.dynamic_gather", "%x, %d, %t", f"{F}, tensor<3x1xi32>, tensor<2xi32>", "tensor<3x?xf32>", f"{_GATHER}, indices_are_sorted = false"),
    "get_dimension_size": _op("stablehlo.get_dimension_size", "%x", F, "tensor<i32>", "dimension = 1 : i64"),
    "set_dimension_size": _op("stablehlo.set_dimension_size", "%x, %n", f"{F}, tensor<i32>", "tensor<4x?xf32>", "dimension = 1 : i64"),
    "rng_bit_generator": ('%q, %r = "stablehlo.rng_bit_generator"(%u) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x6xui32>)', "tensor<4x6xui32>"),
    "rng": _op("stablehlo.rng", "%z, %z, %q", "tensor<f32>, tensor<f32>, tensor<2xi64>", F, "rng_distribution = #stablehlo<rng_distribution UNIFORM>"),
    "while": (f'%r, %q = "stablehlo.while"(%x, %n) ({{\n^bb0(%e: {F}, %f: tensor<i32>):\n  %g = stablehlo.constant dense<3> : tensor<i32>\n'
              f"  %h = stablehlo.compare LT, %f, %g : (tensor<i32>, tensor<i32>) -> tensor<i1>\n  stablehlo.return %h : tensor<i1>\n}}, {{\n^bb0(%e: {F}, %f: tensor<i32>):\n"
              f"  %g = stablehlo.constant dense<1> : tensor<i32>\n  %h = stablehlo.add %f, %g : tensor<i32>\n  %l = stablehlo.tanh %e : {F}\n  stablehlo.return %l, %h : {F}, tensor<i32>\n}})"
              f" : ({F}, tensor<i32>) -> ({F}, tensor<i32>)", F),
    "if": _op("stablehlo.if", "%p", "tensor<i1>", F, "", f"({{\n  %g = stablehlo.tanh %x : {F}\n  stablehlo.return %g : {F}\n}}, {{\n  stablehlo.return %y : {F}\n}})"),
    "case": _op("stablehlo.case", "%n", "tensor<i32>", F, "", f"({{\n  %g = stablehlo.tanh %x : {F}\n  stablehlo.return %g : {F}\n}}, {{\n  stablehlo.return %y : {F}\n}})"),
    "optimization_barrier": ('%r, %q = "stablehlo.optimization_barrier"(%x, %n) : (tensor<4x6xf32>, tensor<i32>) -> (tensor<4x6xf32>, tensor<i32>)', F),
    "cholesky": _op("stablehlo.cholesky", "%s", "tensor<6x6xf32>", "tensor<6x6xf32>", "lower = true"),
    "triangular_solve": _op("stablehlo.triangular_solve", "%s, %s", "tensor<6x6xf32>, tensor<6x6xf32>", "tensor<6x6xf32>",
                            "left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false"),
    "fft": _op("stablehlo.fft", "%c", C, C, "fft_length = array<i64: 6>, fft_type = #stablehlo<fft_type FFT>"),
    "rfft": _op("stablehlo.fft", "%x", F, C.replace("x6x", "x4x"), "fft_length = array<i64: 6>, fft_type = #stablehlo<fft_type RFFT>"),
    "batch_norm_inference": _op("stablehlo.batch_norm_inference", "%x, %v, %v, %v, %v", f"{F}" + ", tensor<6xf32>" * 4, F, _NORM),
    "batch_norm_training": (f'%r, %q, %o = "stablehlo.batch_norm_training"(%x, %v, %v) <{{{_NORM}}}> : ({F}, tensor<6xf32>, tensor<6xf32>) -> ({F}, tensor<6xf32>, tensor<6xf32>)', F),
    "batch_norm_grad": (f'%r, %q, %o = "stablehlo.batch_norm_grad"(%x, %v, %v, %v, %y) <{{{_NORM}}}> : ({F}, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, {F}) -> ({F}, tensor<6xf32>, tensor<6xf32>)', F),
    "tuple": (f'%q = "stablehlo.tuple"(%x, %n) : ({F}, tensor<i32>) -> tuple<{F}, tensor<i32>>\n'
              f'%r = "stablehlo.get_tuple_element"(%q) <{{index = 0 : i32}}> : (tuple<{F}, tensor<i32>>) -> {F}', F),
    "custom_call": _op("stablehlo.custom_call", "%x", F, F, 'call_target_name = "mhlo.erf"'),
    "householder": _op("stablehlo.custom_call", "%s, %v", "tensor<6x6xf32>, tensor<6xf32>", "tensor<6x6xf32>", 'call_target_name = "ProductOfElementaryHouseholderReflectors"'),
    "qr": ('%r, %q = "stablehlo.custom_call"(%s) <{call_target_name = "Qr"}> : (tensor<6x6xf32>) -> (tensor<6x6xf32>, tensor<6xf32>)', "tensor<6x6xf32>"),
    "sharding_constraint": (f'%r = sdy.sharding_constraint %x <@m, [{{"x"}}, {{?}}]> : {F}', F),
    "sdy_all_gather": (f'%q = sdy.sharding_constraint %x <@m, [{{"x"}}, {{}}]> : {F}\n%r = sdy.all_gather [{{"x"}}, {{}}] %q out_sharding=<@m, [{{}}, {{}}]> : {F}', F),
    "sdy_all_slice": (f'%r = sdy.all_slice [{{}}, {{"y"}}] %x out_sharding=<@m, [{{}}, {{"y"}}]> : {F}', F),
    "sdy_all_to_all": (f'%q = sdy.sharding_constraint %x <@m, [{{"x"}}, {{}}]> : {F}\n%r = sdy.all_to_all [{{"x"}}: 0->1] %q out_sharding=<@m, [{{}}, {{"x"}}]> : {F}', F),
    "sdy_permute": (f'%q = sdy.sharding_constraint %x <@m, [{{"x"}}, {{}}]> : {F}\n%r = sdy.collective_permute %q out_sharding=<@m, [{{"y"}}, {{}}]> : {F}', F),
    "sdy_all_reduce": (f'%q = sdy.sharding_constraint %x <@m, [{{}}, {{}}], unreduced={{"x"}}> : {F}\n%r = sdy.all_reduce {{"x"}} %q out_sharding=<@m, [{{}}, {{}}]> : {F}', F),
    "sdy_reduce_scatter": (f'%q = sdy.sharding_constraint %x <@m, [{{}}, {{}}], unreduced={{"x"}}> : {F}\n%r = sdy.reduce_scatter [{{"x"}}, {{}}] %q out_sharding=<@m, [{{"x"}}, {{}}]> : {F}', F),
    "sdy_sub_axes": (f'%r = sdy.sharding_constraint %x <@w, [{{"a":(1)2}}, {{"a":(2)2, ?}}], replicated={{"b"}}> : {F}', F),
    "sdy_rule": (f'%r = stablehlo.tanh %x {{sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {{i=4, j=6}}>}} : {F}', F),
    "sdy_barrier": (f'%r = sdy.propagation_barrier %x allowed_direction=FORWARD : {F}', F),
    "sdy_group": (f'%r = stablehlo.tanh %x : {F}\nsdy.sharding_group %r group_id=0 : {F}', F),
    "sdy_nested": (f'%r = sdy.manual_computation(%x) in_shardings=[<@m, [{{"x"}}, {{}}]>] out_shardings=[<@m, [{{"x"}}, {{}}]>] manual_axes={{"x"}} (%e: tensor<2x6xf32>) {{\n'
                   '  %g = sdy.manual_computation(%e) in_shardings=[<@m, [{}, {"y"}]>] out_shardings=[<@m, [{}, {"y"}]>] manual_axes={"y"} (%f: tensor<2x3xf32>) {\n'
                   "    %h = stablehlo.tanh %f : tensor<2x3xf32>\n    sdy.return %h : tensor<2x3xf32>\n  } : (tensor<2x6xf32>) -> tensor<2x6xf32>\n  sdy.return %g : tensor<2x6xf32>\n"
                   f"}} : ({F}) -> {F}", F),
    "manual": (f'%r = sdy.manual_computation(%x) in_shardings=[<@m, [{{"x"}}, {{}}]>] out_shardings=[<@m, [{{"x"}}, {{}}]>] manual_axes={{"x", "y"}} (%e: tensor<2x6xf32>) {{\n'
               "  %g = stablehlo.tanh %e : tensor<2x6xf32>\n  sdy.return %g : tensor<2x6xf32>\n"
               f"}} : ({F}) -> {F}", F),
    "sharded_result": (f'%r = stablehlo.tanh %x {{sdy.sharding = #sdy.sharding_per_value<[<@m, [{{"x"}}, {{}}], replicated={{"y"}}>]>}} : {F}', F),
}  # fmt: skip
_MORE = {  # lines that precede the line of the op and define more operands
    "select_and_scatter": "%u = stablehlo.slice %x [0:4, 0:3] : (tensor<4x6xf32>) -> tensor<4x3xf32>",
    "gather_batch": "%q = stablehlo.constant dense<1> : tensor<4x2x1xi32>",
    "scatter": "%q = stablehlo.slice %x [0:3, 0:6] : (tensor<4x6xf32>) -> tensor<3x6xf32>",
    "dynamic_conv": "%q = stablehlo.constant dense<1> : tensor<2x2xi32>",
    "dynamic_update_slice": "%q = stablehlo.slice %x [0:2, 0:3] : (tensor<4x6xf32>) -> tensor<2x3xf32>",
    "rng_bit_generator": "%u = stablehlo.constant dense<7> : tensor<2xui64>",
    "rng": "%q = stablehlo.constant dense<[4, 6]> : tensor<2xi64>",
}
# Collectives, in programs that each device runs.
_GROUPS = "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids"
_SIDE = _GROUPS.removesuffix(", use_global_device_ids")
LOCAL: dict[str, tuple[str, str]] = {
    "all_reduce": _op("stablehlo.all_reduce", "%x", F, F, _GROUPS, _fold()),
    "all_reduce_region": _op("stablehlo.all_reduce", "%x", F, F, _GROUPS, "({\n^bb0(%e: tensor<f32>, %f: tensor<f32>):\n  %g = stablehlo.add %e, %f : tensor<f32>\n  %h = stablehlo.tanh %g : tensor<f32>\n  stablehlo.return %h : tensor<f32>\n})"),
    "all_gather": _op("stablehlo.all_gather", "%x", F, "tensor<8x6xf32>", f"all_gather_dim = 0 : i64, {_GROUPS}"),
    "reduce_scatter": _op("stablehlo.reduce_scatter", "%x", F, "tensor<2x6xf32>", f"scatter_dimension = 0 : i64, {_GROUPS}", _fold()),
    "all_to_all": _op("stablehlo.all_to_all", "%x", F, "tensor<8x3xf32>", f"split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, {_SIDE}"),
    "collective_broadcast": _op("stablehlo.collective_broadcast", "%x", F, F, _SIDE),
    "collective_permute": _op("stablehlo.collective_permute", "%x", F, F, "source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"),
    "partition_id": _op("stablehlo.partition_id", "", "", "tensor<ui32>"),
    "replica_id": _op("stablehlo.replica_id", "", "", "tensor<ui32>"),
}  # fmt: skip
# meshgen's own `sched` ops.
_SCORE = "^bb0(%e: tensor<f32>, %f: tensor<f32>, %g: tensor<i32>, %h: tensor<i32>)"
_CHANGED = f"{{\n{_SCORE}:\n  %l = stablehlo.compare GE, %g, %h : (tensor<i32>, tensor<i32>) -> tensor<i1>\n  %m = stablehlo.select %l, %e, %f : tensor<i1>, tensor<f32>\n  stablehlo.return %m : tensor<f32>\n}}"
_KEPT = f"{{\n{_SCORE}:\n  stablehlo.return %e : tensor<f32>\n}}"
_DERIVATIVE = _KEPT.replace("%e: tensor<f32>", "%e: tensor<f32>, %m: tensor<f32>")
_PRECISION = "[#stablehlo<precision HIGH>, #stablehlo<precision HIGH>]"
_PRODUCTS = f'positions = ["t", "s"], precision_config = {_PRECISION}, value_precision_config = {_PRECISION}, zero_empty = false'
_GRADIENTS = f"{_PRODUCTS}, gradient_precision_config = {_PRECISION}"
_ROWS = f"{F}, tensor<6x6xf32>, tensor<6x6xf32>"
_ROW = "tensor<4xf32>"
_STATISTICS = "%q = stablehlo.slice %x [0:4, 0:1] : (tensor<4x6xf32>) -> tensor<4x1xf32>\n%o = stablehlo.reshape %q : (tensor<4x1xf32>) -> tensor<4xf32>"
SCHED: dict[str, tuple[str, str]] = {
    "sched.attention": (
        f'%r, %q = "sched.attention"(%x, %s, %s, %y) <{{factors = "t d, s d, s e, t s -> t e, t", {_PRODUCTS}}}> ({_CHANGED}, {_KEPT}) : ({_ROWS}, {F}) -> ({F}, {_ROW})', F),
    "sched.attention_gradient_queries": (
        f'%r = "sched.attention_gradient_queries"(%x, %s, %s, %o, %o, %x, %y) <{{factors = "t d, s d, s e, t, t, t e, t s -> t d", {_GRADIENTS}}}> ({_CHANGED}, {_KEPT}, {_DERIVATIVE}) '
        f": ({_ROWS}, {_ROW}, {_ROW}, {F}, {F}) -> {F}", F),
    "sched.attention_gradient_keys": (
        f'%r, %u = "sched.attention_gradient_keys"(%x, %s, %s, %o, %o, %x, %y) <{{factors = "t d, s d, s e, t, t, t e, t s -> s d, s e", {_GRADIENTS}}}> ({_CHANGED}, {_KEPT}, {_DERIVATIVE}) '
        f": ({_ROWS}, {_ROW}, {_ROW}, {F}, {F}) -> (tensor<6x6xf32>, tensor<6x6xf32>)", "tensor<6x6xf32>"),
    "sched.ragged_dot": _op("sched.ragged_dot", "%x, %w, %q, %u", f"{F}, tensor<2x6x6xf32>, tensor<2xi32>, tensor<2xi32>", F,
                            f'contracts = false, precision_config = {_PRECISION}, disjoint = true, total_groups = 4 : i64, group_axes = ["x"]'),
}  # fmt: skip
_MORE |= {
    "sched.attention_gradient_queries": _STATISTICS,
    "sched.attention_gradient_keys": _STATISTICS,
    "sched.ragged_dot": "%w = stablehlo.constant dense<1.5> : tensor<2x6x6xf32>\n%q = stablehlo.constant dense<[0, 2]> : tensor<2xi32>\n%u = stablehlo.constant dense<[2, 4]> : tensor<2xi32>",
}


def program(name: str) -> str:
    """Return the program of the op `name` on a mesh of 2 x 2 devices."""
    line, result = OPS.get(name) or LOCAL.get(name) or SCHED[name]
    head = "mhlo.num_partitions = 4 : i32" if name in LOCAL else ""
    other = '  sdy.mesh @w = <["a"=4, "b"=1]>\n' if "@w" in line else ""
    mesh = "" if name in LOCAL else '  sdy.mesh @m = <["x"=2, "y"=2]>\n' + other
    body = "\n".join(filter(None, (_MORE.get(name, ""), line)))
    return f"module attributes {{{head}}} {{\n{mesh}func.func @main({ARGS}) -> {result} {{\n{body}\nreturn %r : {result}\n}}\n}}\n"


NAMES = (*OPS, *LOCAL, *SCHED)
