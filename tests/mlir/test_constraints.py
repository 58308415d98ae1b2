"""Tests of StableHLO's constraints: if a small program has one mistake, it is refused at the location of the op."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from tests.mlir.every_op import NAMES, program

# Value: name of a program in every_op.py, text replacements that make it invalid, and a regex of the message.
SLIPS: dict[str, tuple[str, list[tuple[str, str]], str]] = {
    'a region that takes too much': ('reduce_region', [('%f: tensor<f32>):', '%f: tensor<f32>, %o: tensor<f32>):')], 'region 0 has 3 arguments instead of 2'),
    'a region of another type': ('reduce', [('(%e: tensor<f32>, %f: tensor<f32>):\n  %g = stablehlo.add %e, %f : tensor<f32>\n  stablehlo.return %g : tensor<f32>', '(%e: tensor<f64>, %f: tensor<f64>):\n  %g = stablehlo.add %e, %f : tensor<f64>\n  stablehlo.return %g : tensor<f64>')], r'region 0 takes \(f64\[\], f64\[\]\)'),
    'a region that gives a tensor': ('reduce_region', [('stablehlo.return %h : tensor<f32>', '%o = stablehlo.broadcast_in_dim %h, dims = [] : (tensor<f32>) -> tensor<3xf32>\nstablehlo.return %o : tensor<3xf32>')], r'region 0 returns \(f32\[3\]\)'),
    'a region that gives nothing': ('all_reduce', [('stablehlo.return %g : tensor<f32>', '"stablehlo.return"() : () -> ()')], 'region 0 yields 0 values instead of 1'),
    'a scatter that gives nothing': ('reduce_scatter', [('stablehlo.return %g : tensor<f32>', '"stablehlo.return"() : () -> ()')], 'region 0 yields 0 values instead of 1'),
    'results in another order': ('reduce_pair', [('stablehlo.return %g, %m : tensor<f32>, tensor<i32>', 'stablehlo.return %m, %g : tensor<i32>, tensor<f32>')], 'region 0 returns'),
    'an initial value of another type': ('reduce_window', [('(%x, %z)', '(%x, %n)'), ('(tensor<4x6xf32>, tensor<f32>) ->', '(tensor<4x6xf32>, tensor<i32>) ->')], r'the initial value must be a scalar of type f32, got i32\[\]'),
    'a choice that is no boolean': ('select_and_scatter', [('stablehlo.return %g : tensor<i1>', 'stablehlo.return %e : tensor<f32>')], r'region 0 returns \(f32\[\]\) instead of \(i1\[\]\)'),
    'a map of two by a region of one': ('map', [('%e: tensor<f32>, %f: tensor<f32>', '%e: tensor<f32>'), ('multiply %e, %f', 'multiply %e, %e')], 'region 0 has 1 arguments instead of 2'),
    'a map to tensors': ('map', [('stablehlo.return %g : tensor<f32>', '%o = stablehlo.constant dense<1.0> : tensor<5xf32>\nstablehlo.return %o : tensor<5xf32>')], r'region 0 returns \(f32\[5\]\)'),
    'a map over some dims': ('map', [('array<i64: 0, 1>', 'array<i64: 1>')], 'must be all 2 dims in order'),
    'no feature groups': ('convolution', [('feature_group_count = 1', 'feature_group_count = 0')], 'has 0 feature and 1 batch groups'),
    'no batch groups': ('convolution', [('batch_group_count = 1', 'batch_group_count = 0')], 'has 1 feature and 0 batch groups'),
    'no batch groups of a dynamic one': ('dynamic_conv', [('batch_group_count = 1', 'batch_group_count = 0')], 'has 1 feature and 0 batch groups'),
    'padding that is no pairs': ('convolution_padded', [('dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>', 'dense<[1, 1, 0, 0]> : tensor<4xi64>')], 'padding must be a list of pairs'),
    'unsorted window dims': ('gather_batch', [('collapsed_slice_dims = [1]', 'collapsed_slice_dims = [1, 0]')], 'is not sorted|share dim'),
    'offsets twice': ('gather', [('offset_dims = [1]', 'offset_dims = [1, 1]')], 'is not sorted'),
    'a batch dim that is collapsed': ('gather_batch', [('collapsed_slice_dims = [1]', 'collapsed_slice_dims = [0]')], 'share dim 0'),
    'a batch dim that is looked up': ('gather_batch', [('start_index_map = [1]', 'start_index_map = [0]')], 'share dim 0'),
    'an index vector along a batch dim': ('gather_batch', [('start_indices_batching_dims = [0]', 'start_indices_batching_dims = [2]')], 'has index_vector_dim 2'),
    'an index dim that is not there': ('gather', [('index_vector_dim = 1', 'index_vector_dim = 7')], r'index_vector_dim 7 is not in \[0, 2\]'),
    'update dims twice': ('scatter', [('update_window_dims = [1]', 'update_window_dims = [1, 1]')], 'names a dim twice'),
    'inserted dims out of range': ('scatter', [('inserted_window_dims = [0]', 'inserted_window_dims = [4]')], 'names dim 4'),
    'a format without an exponent': ('reduce_precision', [('exponent_bits = 5', 'exponent_bits = 0')], 'exponent_bits is 0; it should be from 1'),
    'a format with a negative mantissa': ('reduce_precision', [('mantissa_bits = 10', 'mantissa_bits = -1')], 'mantissa_bits is -1; it should be from 0'),
    'one precision for two operands': ('dot_general', [('[#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]', '[#stablehlo<precision DEFAULT>]')], 'none or two of DEFAULT, HIGH, HIGHEST'),
    'an unknown precision': ('dot_general', [('precision HIGHEST', 'precision BEST')], 'none or two of DEFAULT, HIGH, HIGHEST'),
    'precisions that are no list': ('dot_general', [('[#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]', '3 : i64')], 'precision_config must be a list, got 3 : i64'),
    'sizes for another rank': ('dynamic_reshape', [('tensor<?x8xf32>', 'tensor<?x8x1xf32>')], 'has 2 sizes for 3 dims'),
    'a dynamic dim out of range': ('get_dimension_size', [('dimension = 1', 'dimension = 2')], 'dimension 2 is out of range'),
    'a size that is no i32': ('get_dimension_size', [('-> tensor<i32>', '-> tensor<i64>'), ('return %r : tensor<i32>', 'return %r : tensor<i64>')], r'the size must be i32\[\], got i64\[\]'),
    'lists of another length': ('dynamic_pad', [('%r = ', '%q = stablehlo.constant dense<1> : tensor<3xi32>\n%r = '), ('%x, %z, %t, %t, %t', '%x, %z, %q, %t, %t'), ('tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) ->', 'tensor<f32>, tensor<3xi32>, tensor<2xi32>, tensor<2xi32>) ->')], 'has 3 sizes for 2 dims'),
    'groups that are no matrix': ('all_gather', [('dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>', 'dense<[0, 1]> : tensor<2xi64>')], 'replica_groups must be a matrix'),
    'pairs of three': ('collective_permute', [('dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>', 'dense<[[0, 1, 2]]> : tensor<1x3xi64>')], 'source_target_pairs must be a list of pairs'),
    'global ids without a channel': ('all_gather', [('handle = 1', 'handle = 0')], 'a channel id of at least 1'),
    "a partition's number as a float": ('partition_id', [('%r = ', '%o = "stablehlo.partition_id"() : () -> tensor<f32>\n%r = ')], r'must be ui32\[\], got f32\[\]'),
    'ends of another type': ('rng', [('%z, %z, %q', '%z, %n, %q'), ('(tensor<f32>, tensor<f32>, tensor<2xi64>)', '(tensor<f32>, tensor<i32>, tensor<2xi64>)')], 'the bounds of the distribution .*, got f32'),
    'a tuple of something else': ('tuple', [('index = 0', 'index = 2')], 'element 2 is out of range for a tuple of 2'),
    'statistics of another size': ('batch_norm_training', [('-> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)', '-> (tensor<4x6xf32>, tensor<6xf32>, tensor<5xf32>)')], r'expected type f32\[6\]'),
    'a broadcast to something else': ('broadcast', [('broadcast_sizes = array<i64: 4>', 'broadcast_sizes = array<i64: 5>')], r'expected result type f32\[5,6\]'),
    'a function of two': ('chlo.square', [('"chlo.square"(%x) : (tensor<4x6xf32>)', '"chlo.square"(%x, %x) : (tensor<4x6xf32>, tensor<4x6xf32>)')], 'has 2 operands instead of 1'),
    'a written-out function of another type': ('chlo.square', [('-> tensor<4x6xf32>\nreturn %r : tensor<4x6xf32>', '-> tensor<4x6xf64>\nreturn %x : tensor<4x6xf32>')], r'expected type f32\[4,6\], got f64\[4,6\]'),
    'start indices of two types': ('dynamic_slice', [('%r = ', '%o = stablehlo.constant dense<1> : tensor<i64>\n%r = '), ('%n, %n)', '%n, %o)'), ('tensor<i32>, tensor<i32>) ->', 'tensor<i32>, tensor<i64>) ->')], 'differ in element type: i32, i64'),
    'a random number of sizes for another rank': ('rng', [('dense<[4, 6]> : tensor<2xi64>', 'dense<[4, 6, 1]> : tensor<3xi64>'), ('tensor<f32>, tensor<2xi64>)', 'tensor<f32>, tensor<3xi64>)')], 'must be a list of 2 sizes'),
    'a barrier that loses a value': ('optimization_barrier', [('%r, %q = ', '%r = '), ('-> (tensor<4x6xf32>, tensor<i32>)', '-> tensor<4x6xf32>')], 'has 2 operands instead of 1'),
    'iterations over fewer values': ('dynamic_iota', [('tensor<?x?xi32>', 'tensor<?xi32>'), ('iota_dimension = 1', 'iota_dimension = 0')], 'has 2 sizes for 1 dims'),
    'iterations over a dim out of range': ('dynamic_iota', [('iota_dimension = 1', 'iota_dimension = 2')], 'dim 2 is out of range'),
    'a dynamic broadcast into a dim twice': ('dynamic_broadcast_in_dim', [('(%v, %t)', '(%x, %t)'), ('(tensor<6xf32>, tensor<2xi32>)', '(tensor<4x6xf32>, tensor<2xi32>)'), ('array<i64: 1>', 'array<i64: 1, 1>')], 'names a dim twice'),
    'a dynamic broadcast into no dim': ('dynamic_broadcast_in_dim', [('array<i64: 1>', 'array<i64: 2>')], 'names dim 2'),
    'a dynamic broadcast to another size': ('dynamic_broadcast_in_dim', [('tensor<?x6xf32>', 'tensor<?x5xf32>')], '6 is neither 1 nor 5'),
    'a dim that grows and does not': ('dynamic_broadcast_in_dim', [('array<i64: 1>', 'array<i64: 1>, known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 0>')], 'each of 1 dims at most once'),
    'sizes that are not those of the result': ('dynamic_reshape', [('%r = ', '%q = stablehlo.constant dense<[3, 7]> : tensor<2xi32>\n%r = '), ('(%x, %t)', '(%x, %q)')], r'sizes \[3, 7\] are not those of the result f32\[\?,8\]'),
    'a negative size': ('dynamic_iota', [('%r = ', '%q = stablehlo.constant dense<[4, -6]> : tensor<2xi32>\n%r = '), ('(%t)', '(%q)')], r'sizes \[4, -6\] are not'),
    'random numbers of other sizes': ('rng', [('dense<[4, 6]>', 'dense<[4, 7]>')], r'sizes \[4, 7\] are not those of the result f32\[4,6\]'),
    'padding that is no scalar': ('dynamic_pad', [('%x, %z,', '%x, %v,'), ('tensor<4x6xf32>, tensor<f32>, tensor<2xi32>', 'tensor<4x6xf32>, tensor<6xf32>, tensor<2xi32>')], 'is not a scalar'),
    'padding of another type': ('dynamic_pad', [('%x, %z,', '%x, %n,'), ('tensor<4x6xf32>, tensor<f32>, tensor<2xi32>', 'tensor<4x6xf32>, tensor<i32>, tensor<2xi32>')], 'differ in element type: f32, i32'),
    'a dynamic gather along no dim': ('dynamic_gather', [('start_index_map = [0]', 'start_index_map = [2]')], 'names dim 2'),
    'a dynamic gather of too few window dims': ('dynamic_gather', [('offset_dims = [1]', 'offset_dims = [1, 2]')], 'has 2 offset_dims for 1 window dims'),
    'a dynamic gather with another result': ('dynamic_gather', [('tensor<3x?xf32>', 'tensor<4x?xf32>')], r'expected result type f32\[3,\?\]'),
    'indices that are floats': ('dynamic_gather', [('(%x, %d, %t)', '(%x, %s, %t)'), ('tensor<3x1xi32>, tensor<2xi32>)', 'tensor<6x6xf32>, tensor<2xi32>)')], 'element type f32 is not integer'),
    'a dynamic convolution without feature groups': ('dynamic_conv', [('feature_group_count = 1', 'feature_group_count = 0')], 'has 0 feature and 1 batch groups'),
    'a dynamic convolution without strides': ('dynamic_conv', [('window_strides = array<i64: 1, 1>', 'window_strides = array<i64: 0, 1>')], 'window_strides .* has an entry below 1'),
    'a dynamic convolution to other features': ('dynamic_conv', [('tensor<1x?x?x1xf32>', 'tensor<1x?x?x2xf32>')], r'expected result type f32\[1,5,5,1\]'),
    'a convolution of two types': ('convolution', [('%r = ', '%q = stablehlo.convert %k : (tensor<2x2x1x1xf32>) -> tensor<2x2x1x1xi32>\n%r = '), ('(%a, %k)', '(%a, %q)'), ('(tensor<1x4x4x1xf32>, tensor<2x2x1x1xf32>) ->', '(tensor<1x4x4x1xf32>, tensor<2x2x1x1xi32>) ->')], 'differ in element type: f32 and i32'),
    'a size that is larger than the dim': ('set_dimension_size', [('tensor<4x?xf32>', 'tensor<4x7xf32>')], r'f32\[4,6\] cannot be cut to f32\[4,7\] along dim 1'),
    'a cut of another dim': ('set_dimension_size', [('tensor<4x?xf32>', 'tensor<3x?xf32>')], r'cannot be cut to f32\[3,\?\]'),
    'complex bits of a real number': ('bitcast_convert', [('(%x) : (tensor<4x6xf32>)', '(%c) : (tensor<4x6xcomplex<f32>>)'), ('tensor<4x6xi32>\nreturn', 'tensor<4x6xf64>\nreturn'), ('return %r : tensor<4x6xi32>', 'return %r : tensor<4x6xf64>'), (') -> tensor<4x6xi32> {', ') -> tensor<4x6xf64> {')], 'complex numbers cannot be bitcast'),
    'an algorithm and a precision': ('dot_general', [('precision_config =', 'algorithm = #stablehlo.dot_algorithm<lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>, precision_config =')], 'precision_config must be DEFAULT'),
    'a layout of the operands alone': ('custom_call', [('"mhlo.erf"', '"mhlo.erf", operand_layouts = [dense<[1, 0]> : tensor<2xindex>]')], 'must both be given, or neither'),
    'a layout that is no order of dims': ('custom_call', [('"mhlo.erf"', '"mhlo.erf", operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 1]> : tensor<2xindex>]')], r'layout \[1, 1\] of result 0 is not a permutation of 2 dims'),
    'a layout too few': ('custom_call', [('"mhlo.erf"', '"mhlo.erf", operand_layouts = [], result_layouts = [dense<[1, 0]> : tensor<2xindex>]')], 'a layout for each of 1 operands'),
    'an alias of an operand that is not there': ('custom_call', [('"mhlo.erf"', '"mhlo.erf", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>]')], 'an alias of operand 1 of 1'),
    'an alias of a part that is not there': ('custom_call', [('"mhlo.erf"', '"mhlo.erf", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>]')], 'a part of a result of its type'),
    'a version that is no number': ('custom_call', [('"mhlo.erf"', '"mhlo.erf", api_version = "new"')], 'api_version must be an integer'),
    'groups over an axis that the mesh lacks': ('sched.ragged_dot', [('["x"]', '["nope"]')], "MG0202: sched.ragged_dot: mesh axis 'nope' is not in"),
    'groups over an axis twice': ('sched.ragged_dot', [('["x"]', '["x", "x"]')], "MG0203: sched.ragged_dot: mesh axis 'x' is listed more than once"),
    'groups over a number': ('sched.ragged_dot', [('["x"]', '[3]')], 'group_axes must be a list of strings'),
    'fewer than no groups': ('sched.ragged_dot', [('total_groups = 4', 'total_groups = -3')], 'total_groups is -3; it must be 0 or more'),
    'a constant of another type': ('chlo.constant_like', [('1.0 : f32', '1.5 : f64')], 'its value must be of type f32, got f64'),
}  # fmt: skip


# Value: name of a program in every_op.py, and text replacements that keep it valid.
SOUND: dict[str, tuple[str, list[tuple[str, str]]]] = {
    'sizes of the result': ('dynamic_reshape', [('%r = ', '%q = stablehlo.constant dense<[3, 8]> : tensor<2xi32>\n%r = '), ('(%x, %t)', '(%x, %q)')]),
    'layouts and an alias': ('custom_call', [('"mhlo.erf"', '"mhlo.erf", operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]')]),
    'layouts and an alias of the first of two results': ('qr', [('"Qr"', '"Qr", operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>]')]),
    'a dim that grows': ('dynamic_broadcast_in_dim', [('array<i64: 1>', 'array<i64: 1>, known_nonexpanding_dimensions = array<i64: 0>')]),
    'a smaller size': ('set_dimension_size', [('tensor<4x?xf32>', 'tensor<4x5xf32>')]),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_op_program_is_valid(name: str) -> None:
    assert parse_text(program(name)).graph.outputs


def changed(name: str, changes: list[tuple[str, str]]) -> str:
    text = program(name)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", SOUND)
def test_valid_variant_is_imported(name: str) -> None:
    assert parse_text(changed(*SOUND[name])).graph.outputs


@pytest.mark.parametrize("slip", SLIPS)
def test_constraint_violation_is_refused_at_its_location(slip: str) -> None:
    name, changes, message = SLIPS[slip]
    text = changed(name, changes)
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(text, "m.mlir")
    assert all(str(fault.loc).startswith("m.mlir:") for fault in caught.value.diagnostics)


def main_of(body: str, result: str = "tensor<4xf32>", arguments: str = "%x: tensor<4xf32>") -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}\n"


OTHERS: dict[str, tuple[str, str]] = {
    "a constant of open size": (main_of("%r = stablehlo.constant dense<1.0> : tensor<?xf32>", "tensor<?xf32>"), "static shape|unknown size"),
    "a constant of open size in generic form": (main_of('%r = "stablehlo.constant"() <{value = dense<1.0> : tensor<4xf32>}> : () -> tensor<?xf32>', "tensor<?xf32>"), "unknown size"),
    "windows of nothing": (
        main_of('%r = "stablehlo.reduce_window"() <{window_dimensions = array<i64: 2>}> ({\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n%1 = stablehlo.add %p, %q : tensor<f32>\nstablehlo.return %1 : tensor<f32>\n}) : () -> tensor<4xf32>'),
        "0 operands",
    ),
    "a use before its definition in dead code": (main_of("%a = stablehlo.tanh %b : tensor<4xf32>\n%b = stablehlo.tanh %x : tensor<4xf32>\n%r = stablehlo.tanh %x : tensor<4xf32>"), "operand 0 is used before it is defined"),
    "a value that needs itself": (main_of("%a = stablehlo.add %a, %x : tensor<4xf32>\n%r = stablehlo.tanh %x : tensor<4xf32>"), "operand 0 is used before it is defined"),
    "a value of another region": (
        main_of('%p = stablehlo.constant dense<true> : tensor<i1>\n%0 = "stablehlo.if"(%p) ({\n%i = stablehlo.tanh %x : tensor<4xf32>\nstablehlo.return %i : tensor<4xf32>\n}, {\nstablehlo.return %x : tensor<4xf32>\n}) : (tensor<i1>) -> tensor<4xf32>\n%r = "stablehlo.abs"(%i) : (tensor<4xf32>) -> tensor<4xf32>'),
        "MG0",
    ),
    "an unknown field of an algorithm": (
        main_of("%r = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], algorithm = <lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, speed = 1> : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>", "tensor<f32>"),
        "algorithm has no field speed",
    ),
    "an algorithm without operations": (
        main_of("%r = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], algorithm = <lhs_precision_type = f32, rhs_precision_type = f99, accumulation_type = f32, num_primitive_operations = 0> : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>", "tensor<f32>"),
        "'f99' as rhs_precision_type(.|\n)*num_primitive_operations must be a positive integer, got 0",
    ),
    **{
        f"a ragged dot of {case}": (
            main_of(f'%r = "chlo.ragged_dot"(%x, %w, %n) <{{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>{more}}}> : (tensor<6x5xf32>, tensor<3x5x7xf32>, tensor<{sizes}>) -> tensor<6x7xf32>', "tensor<6x7xf32>", f"%x: tensor<6x5xf32>, %w: tensor<3x5x7xf32>, %n: tensor<{sizes}>"),
            message,
        )
        for case, sizes, more, message in (
            *((case, sizes, "", r"needs integers of shape \[groups\] or \[\] \+ \[groups\] as group sizes") for case, sizes in (("sizes that are floats", "3xf32"), ("one size", "i32"), ("sizes of batches that it lacks", "2x3xi32"))),
            ("three precisions", "3xi32", ", precision_config = [" + ", ".join(["#chlo<precision HIGH>"] * 3) + "]", "none or two of DEFAULT, HIGH, HIGHEST"),
        )
    },
    "zero points of nothing": (main_of('%r = "tosa.tanh"() : () -> tensor<4xf32>'), "has 0 operands instead of 1"),
    "one operation with two results": (main_of('%r, %s = "arith.addf"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)'), "has 2 results instead of 1"),
    "a matmul with too many results": (
        main_of('%r, %s = "linalg.matmul"(%a, %a, %a) <{operandSegmentSizes = array<i32: 2, 1>}> : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)', "tensor<4x4xf32>", "%a: tensor<4x4xf32>"),
        "has 2 results instead of 1",
    ),
    "groups of operands that are not there": (
        main_of('%r = "linalg.matmul"(%a, %a, %a) <{operandSegmentSizes = array<i32: 2, 2>}> : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>', "tensor<4x4xf32>", "%a: tensor<4x4xf32>"),
        "operandSegmentSizes",
    ),
    "an index beyond 64 bits": (main_of("%i = arith.constant 1180591620717411303424 : index\n%r = stablehlo.tanh %x : tensor<4xf32>"), "does not fit into 64 bits"),
    "places of too many dims": (main_of('%r = "tensor.generate"() ({\n^bb0(%i: index, %j: index):\n%c = arith.constant 1.0 : f32\ntensor.yield %c : f32\n}) : () -> tensor<4xf32>'), "its body is not supported"),
    "a cluster of 2^40 axes": ("mesh.cluster @m(rank = 1099511627776, dim_sizes = [2])\n" + main_of("%r = stablehlo.tanh %x : tensor<4xf32>"), "at most 1000 axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_invalid_program_is_refused(name: str) -> None:
    text, message = OTHERS[name]
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(text, "m.mlir")
    assert all(str(fault.loc).startswith("m.mlir:") for fault in caught.value.diagnostics)
