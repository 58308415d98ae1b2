"""Tests of the importers of tensor, scf, func and bufferization against NumPy, sharded or not."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.sizes.program import with_shapes
from tests.mlir.payload import Array, Case, normal

X, Y, N = normal(6, 8), normal(6, 8, seed=1), np.array(3)
T, F = "tensor<6x8xf32>", "f32"
I = np.array(4)  # noqa: E741


def index(name: str, argument: str = "n") -> str:
    """Return lines that define the index `name`, whose value is known only at run time."""
    return f"  %{name}_ = tensor.extract %{argument}[] : tensor<i64>\n  %{name} = arith.index_cast %{name}_ : i64 to index\n"


def constants(**numbers: int) -> str:
    return "".join(f"  %{name} = arith.constant {number} : index\n" for name, number in numbers.items())


def put(x: Array, part: Array, *indices: slice) -> Array:
    result = x.copy()
    result[indices] = part
    return result


TENSOR = {
    "splat": Case({"x": normal()}, "  %s = tensor.extract %x[] : tensor<f32>\n  %r = tensor.splat %s : tensor<2x3xf32>", lambda x: np.full((2, 3), x)),
    "from_elements": Case({"x": X}, constants(a=1, b=2) + f"  %s = tensor.extract %x[%a, %b] : {T}\n  %t = tensor.extract %x[%b, %a] : {T}\n  %r = tensor.from_elements %s, %t, %t, %s : tensor<2x2xf32>", lambda x: np.array([[x[1, 2], x[2, 1]], [x[2, 1], x[1, 2]]])),
    "insert": Case({"x": X, "n": N}, index("k") + constants(a=1) + f"  %s = arith.constant 9.0 : f32\n  %r = tensor.insert %s into %x[%k, %a] : {T}", lambda x, n: put(x, np.float32(9), slice(3, 4), slice(1, 2))),
    "extract_slice": Case({"x": X}, f"  %r = tensor.extract_slice %x[1, 0] [2, 4] [2, 2] : {T} to tensor<2x4xf32>", lambda x: x[1:5:2, ::2]),
    "extract_slice_drops": Case({"x": normal(2, 1, 3, 1)}, "  %r = tensor.extract_slice %x[1, 0, 0, 0] [1, 1, 3, 1] [1, 1, 1, 1] : tensor<2x1x3x1xf32> to tensor<1x3xf32>", lambda x: x[1, 0].T),
    "extract_slice_moves": Case({"x": X, "n": N}, index("k") + f"  %r = tensor.extract_slice %x[%k, 1] [2, 4] [1, 2] : {T} to tensor<2x4xf32>", lambda x, n: x[3:5, 1::2]),
    "extract_slice_strides": Case({"x": X, "n": N}, index("k") + f"  %r = tensor.extract_slice %x[%k, 0] [2, 8] [2, 1] : {T} to tensor<2x8xf32>", lambda x, n: x[3:6:2]),
    "insert_slice": Case({"x": X, "y": normal(2, 3)}, f"  %r = tensor.insert_slice %y into %x[1, 4] [2, 3] [1, 1] : tensor<2x3xf32> into {T}", lambda x, y: put(x, y, slice(1, 3), slice(4, 7))),
    "insert_slice_rank": Case({"x": X, "y": normal(8)}, f"  %r = tensor.insert_slice %y into %x[2, 0] [1, 8] [1, 1] : tensor<8xf32> into {T}", lambda x, y: put(x, y, slice(2, 3))),
    "insert_slice_moves": Case({"x": X, "y": normal(2, 8), "n": N}, index("k") + f"  %r = tensor.insert_slice %y into %x[%k, 0] [2, 8] [1, 1] : tensor<2x8xf32> into {T}", lambda x, y, n: put(x, y, slice(3, 5))),
    "insert_slice_strides": Case({"x": X, "y": normal(3, 2)}, f"  %r = tensor.insert_slice %y into %x[1, 2] [3, 2] [2, 3] : tensor<3x2xf32> into {T}", lambda x, y: put(x, y, slice(1, 6, 2), slice(2, 6, 3))),
    "expand_shape": Case({"x": X}, f"  %r = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [2, 3, 4, 2] : {T} into tensor<2x3x4x2xf32>", lambda x: x.reshape(2, 3, 4, 2)),
    "collapse_shape": Case({"x": normal(2, 3, 4)}, "  %r = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>", lambda x: x.reshape(6, 4)),
    "reshape": Case({"x": X}, f"  %s = arith.constant dense<[4, 12]> : tensor<2xi32>\n  %r = tensor.reshape %x(%s) : ({T}, tensor<2xi32>) -> tensor<4x12xf32>", lambda x: x.reshape(4, 12)),
    "concat": Case({"x": X, "y": normal(2, 8)}, f"  %r = tensor.concat dim(0) %x, %y : ({T}, tensor<2x8xf32>) -> tensor<8x8xf32>", lambda x, y: np.concatenate([x, y])),
    "cast": Case({"x": X}, f"  %t = tensor.cast %x : {T} to tensor<?x8xf32>\n  %r = tensor.cast %t : tensor<?x8xf32> to {T}", lambda x: x),
    "dim": Case({"x": X}, constants(c=1) + f"  %d = tensor.dim %x, %c : {T}\n  %i = arith.index_cast %d : index to i32\n  %r = tensor.splat %i : tensor<2xi32>", lambda x: np.full(2, 8, "i4")),
    "pad": Case({"x": X}, f"  %c = arith.constant 2.0 : f32\n  %r = tensor.pad %x low[1, 0] high[0, 2] {{\n  ^bb0(%i: index, %j: index):\n    tensor.yield %c : f32\n  }} : {T} to tensor<7x10xf32>", lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=2)),
    "pad_computes": Case({"x": X}, f"  %r = tensor.pad %x low[1, 0] high[0, 2] {{\n  ^bb0(%i: index, %j: index):\n    %k = arith.addi %i, %j : index\n    %m = arith.index_cast %k : index to i32\n    %f = arith.sitofp %m : i32 to f32\n    tensor.yield %f : f32\n  }} : {T} to tensor<7x10xf32>", lambda x: put(np.add.outer(np.arange(7), np.arange(10)).astype("f4"), x, slice(1, 7), slice(0, 8))),
    "generate_one": Case({"x": X}, f"  %i = arith.constant 2 : index\n  %v = tensor.extract %x[%i, %i] : {T}\n  %r = tensor.generate {{\n  ^bb0(%a: index, %b: index):\n    tensor.yield %v : f32\n  }} : tensor<8x3xf32>", lambda x: np.full((8, 3), x[2, 2])),
    "generate": Case({"x": X}, f"  %r = tensor.generate {{\n  ^bb0(%i: index, %j: index):\n    %v = tensor.extract %x[%j, %i] : {T}\n    tensor.yield %v : f32\n  }} : tensor<8x6xf32>", lambda x: x.T),
    "alloc": Case({"x": X, "y": Y}, f"  %a = bufferization.alloc_tensor() : {T}\n  %t = linalg.add ins(%x, %y : {T}, {T}) outs(%a : {T}) -> {T}\n  %b = bufferization.alloc_tensor() copy(%t) : {T}\n  %r = bufferization.materialize_in_destination %b in %y : ({T}, {T}) -> {T}", lambda x, y: x + y),
}  # fmt: skip
STEP = f"    %v = arith.addf %t, %y : {T}\n    scf.yield %v : {T}\n  }}"
SCF = {
    "for": Case({"x": X, "y": Y}, constants(a=1, b=8, c=3) + f"  %r = scf.for %i = %a to %b step %c iter_args(%t = %x) -> ({T}) {{\n{STEP}", lambda x, y: x + 3 * y),
    "for_to_an_argument": Case({"x": X, "y": Y, "n": I}, index("b") + constants(a=0, c=1) + f"  %r = scf.for %i = %a to %b step %c iter_args(%t = %x) -> ({T}) {{\n{STEP}", lambda x, y, n: x + 4 * y),
    "for_by_an_argument": Case({"x": X, "y": Y, "n": I}, index("c") + constants(a=0, d=1, e=8) + f"  %b = arith.addi %d, %e : index\n  %r = scf.for %i = %a to %b step %c iter_args(%t = %x) -> ({T}) {{\n{STEP}", lambda x, y, n: x + 3 * y),
    "for_of_i32": Case({"x": X, "y": Y, "n": np.array(2, "i4")}, f"  %a = arith.constant 0 : i32\n  %c = arith.constant 1 : i32\n  %b = tensor.extract %n[] : tensor<i32>\n  %r = scf.for %i = %a to %b step %c iter_args(%t = %x) -> ({T}) : i32 {{\n{STEP}", lambda x, y, n: x + 2 * y),
    "for_never": Case({"x": X, "y": Y}, constants(a=5, b=5, c=1) + f"  %r = scf.for %i = %a to %b step %c iter_args(%t = %x) -> ({T}) {{\n{STEP}", lambda x, y: x),
    "for_reads_its_number": Case({"x": X}, constants(a=0, b=6, c=1) + f"  %e = arith.constant dense<0.0> : tensor<8xf32>\n  %r = scf.for %i = %a to %b step %c iter_args(%t = %e) -> (tensor<8xf32>) {{\n    %s = tensor.extract_slice %x[%i, 0] [1, 8] [1, 1] : {T} to tensor<8xf32>\n    %v = arith.addf %t, %s : tensor<8xf32>\n    scf.yield %v : tensor<8xf32>\n  }}", lambda x: x.sum(0)),
    "for_nested": Case({"x": X, "y": Y, "n": I}, index("b") + constants(a=0, c=1, d=2) + f"  %r = scf.for %i = %a to %b step %c iter_args(%s = %x) -> ({T}) {{\n    %q = scf.for %j = %a to %d step %c iter_args(%t = %s) -> ({T}) {{\n    {STEP}\n    scf.yield %q : {T}\n  }}", lambda x, y, n: x + 8 * y),
    "for_two": Case({"x": X, "y": Y}, constants(a=0, b=3, c=1) + f"  %r0, %r1 = scf.for %i = %a to %b step %c iter_args(%s = %x, %t = %y) -> ({T}, {T}) {{\n    scf.yield %t, %s : {T}, {T}\n  }}", lambda x, y: (y, x)),
    "if": Case({"x": X, "n": I}, index("k") + constants(c=2) + f"  %p = arith.cmpi sgt, %k, %c : index\n  %r = scf.if %p -> ({T}) {{\n    %v = arith.negf %x : {T}\n    scf.yield %v : {T}\n  }} else {{\n    scf.yield %x : {T}\n  }}", lambda x, n: -x),
    "while": Case({"x": X, "n": np.array(40.0, "f4")}, f"  %b = tensor.extract %n[] : tensor<f32>\n  %z = arith.constant 1.0 : f32\n  %q, %r = scf.while (%s = %z, %t = %x) : (f32, {T}) -> (f32, {T}) {{\n    %d = arith.addf %s, %s : f32\n    %p = arith.cmpf olt, %s, %b : f32\n    scf.condition(%p) %d, %t : f32, {T}\n  }} do {{\n  ^bb0(%s: f32, %t: {T}):\n    %v = math.tanh %t : {T}\n    scf.yield %s, %v : f32, {T}\n  }}", lambda x, n: np.tanh(np.tanh(np.tanh(np.tanh(np.tanh(np.tanh(x)))))), tolerance=1e-4),
    "index_switch": Case({"x": X, "n": I}, index("k") + f"  %r = scf.index_switch %k -> {T}\n  case 2 {{\n    scf.yield %x : {T}\n  }}\n  case 4 {{\n    %v = arith.negf %x : {T}\n    scf.yield %v : {T}\n  }}\n  default {{\n    %v = math.absf %x : {T}\n    scf.yield %v : {T}\n  }}", lambda x, n: -x),
    "index_switch_default": Case({"x": X, "n": N}, index("k") + f"  %r = scf.index_switch %k -> {T}\n  case 2 {{\n    scf.yield %x : {T}\n  }}\n  default {{\n    %v = math.absf %x : {T}\n    scf.yield %v : {T}\n  }}", lambda x, n: np.abs(x)),
    "execute_region": Case({"x": X}, f"  %r = scf.execute_region -> {T} {{\n    %v = arith.negf %x : {T}\n    scf.yield %v : {T}\n  }}", lambda x: -x),
    "call": Case({"x": X, "n": I}, index("k") + f"  %r = func.call @g(%x, %k) : ({T}, index) -> {T}", lambda x, n: x * 4, before=f"func.func private @g(%x: {T}, %k: index) -> {T} {{\n  %i = arith.index_cast %k : index to i32\n  %f = arith.sitofp %i : i32 to f32\n  %s = tensor.splat %f : {T}\n  %m = arith.mulf %x, %s : {T}\n  return %m : {T}\n}}"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*TENSOR, *SCF])
def test_structural_op_matches_numpy(name: str) -> None:
    {**TENSOR, **SCF}[name].matches()


ROWS, COLUMNS = "[[0]]", "[[], [0]]"
MOVED = [
    ("extract_slice", "4", {"x": COLUMNS, "r": COLUMNS}, {"fetch_rows": 1}),
    ("extract_slice_moves", "2", {"x": COLUMNS, "r": COLUMNS}, {"fetch_rows": 1}),
    ("insert_slice_rank", "4", {"x": COLUMNS, "r": COLUMNS}, {}),
    ("insert_slice_moves", "4", {"x": COLUMNS, "r": COLUMNS}, {}),
    ("insert_slice_moves", "4", {"x": ROWS, "r": ROWS}, {}),
    ("insert_slice_strides", "3", {"x": ROWS, "r": ROWS}, None),
    ("collapse_shape", "2", {"x": ROWS, "r": ROWS}, {}),
    ("expand_shape", "2x4", {"x": "[[0], [1]]", "r": "[[0], [], [1]]"}, {}),
    ("concat", "4", {"x": COLUMNS, "r": COLUMNS}, {}),
    ("pad", "4", {"x": ROWS, "r": ROWS}, {"fetch_rows": 1}),
    ("pad_computes", "3", {"x": COLUMNS, "r": COLUMNS}, None),
    ("for", "4", {"x": ROWS, "r": ROWS}, {}),
    ("for_to_an_argument", "2x2", {"x": "[[0], [1]]", "r": "[[0], [1]]"}, {}),
    ("for_reads_its_number", "4", {"x": COLUMNS, "r": ROWS}, {}),
    ("for_nested", "4", {"x": ROWS, "y": ROWS}, {}),
    ("while", "3", {"x": COLUMNS, "r": COLUMNS}, {}),
    ("if", "4", {"x": ROWS, "r": ROWS}, {}),
    ("index_switch", "4", {"x": COLUMNS, "r": COLUMNS}, {}),
    ("call", "4", {"x": ROWS}, {}),
    ("alloc", "2x2", {"x": "[[0], [1]]"}, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    "name, grid, splits, moved", MOVED, ids=[f"{n}-{g}-{n2}" for n2, (n, g, *_) in enumerate(MOVED)]
)
def test_sharded_structural_op_moves_as_expected(
    name: str, grid: str, splits: dict[str, str], moved: dict[str, int] | None
) -> None:
    """`moved` is the expected number of collectives of each kind, or None to check only the results."""
    counts = {**TENSOR, **SCF}[name].moved(grid, splits)
    assert moved is None or counts == moved


BODY = f"func.func @f(%x: {T}, %n: index) -> {T} {{\n%c1 = arith.constant 1 : index\n{{}}\nreturn %r : {T}\n}}"
REFUSED = {
    "blocks": ("cf.br ^bb1(%x : " + T + f")\n^bb1(%r: {T}):", "cf.br"),
    "recursion": (f"%r = func.call @f(%x, %n) : ({T}, index) -> {T}", "@f"),
    "outside": (f"%r = tensor.extract_slice %x[1, 0] [6, 8] [1, 1] : {T} to {T}", "[1, 7) by 1 is not inside [0, 6)"),
    "unknown_size": (f"%t = tensor.extract_slice %x[0, 0] [%n, 8] [1, 1] : {T} to tensor<?x8xf32>\n%r = tensor.cast %t : tensor<?x8xf32> to {T}", "size operands"),
    "step": (f"%z = arith.constant 0 : index\n%r = scf.for %i = %c1 to %n step %z iter_args(%t = %x) -> ({T}) {{\nscf.yield %t : {T}\n}}", "step is 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_structure_is_refused_at_its_location(name: str) -> None:
    body, message = REFUSED[name]
    with pytest.raises(ProgramError, match=r"(?s).*") as caught:
        with_shapes(parse_text(BODY.replace("{}", body)), {})
    assert message in caught.value.diagnostics[0].message and caught.value.diagnostics[0].loc is not None


def test_scalar_integer_arguments_are_imported() -> None:
    """A scalar argument of the signature becomes a 0-d tensor."""
    text = "func.func @f(%n: index, %k: i32) -> index {\n%a = arith.index_cast %k : i32 to index\n%r = arith.addi %n, %a : index\nreturn %r : index\n}"
    graph = parse_text(text).graph
    assert [str(value.type) for value in (*graph.inputs, *graph.outputs)] == ["i64[]", "i32[]", "i64[]"]


BLOB = """func.func @main(%x: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %c = arith.constant dense_resource<blob> : tensor<2x2xi32>
  %r = arith.addi %x, %c : tensor<2x2xi32>
  return %r : tensor<2x2xi32>
}
{-#
  dialect_resources: {
    builtin: {
      blob: "0x0400000001000000020000000300000004000000"
    }
  }
#-}
"""


def test_dense_resources_after_the_program_are_read() -> None:
    (result,) = evaluate(parse_text(BLOB).graph, [np.zeros((2, 2), "i4")])
    np.testing.assert_array_equal(result, [[1, 2], [3, 4]])
    for text, message in (
        (BLOB.replace("<blob>", "<blub>"), "unknown resource 'blub'"),
        (BLOB.replace('04000000"', '"'), "bytes"),
    ):
        with pytest.raises(ProgramError, match=message):
            parse_text(text)


GENERIC = """func.func @main(%x: tensor<3x4xf32>, %e: tensor<4x3xf32>, %z: tensor<4xf32>) -> tensor<4x2xf32> {
  %t = "linalg.transpose"(%x, %e) <{permutation = array<i64: 1, 0>}> ({
  ^bb0(%a: f32, %b: f32):
    "linalg.yield"(%a) : (f32) -> ()
  }) : (tensor<3x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %g = "linalg.generic"(%t, %z) <{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f32, %b: f32):
    %v = "arith.addf"(%a, %b) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
    "linalg.yield"(%v) : (f32) -> ()
  }) : (tensor<4x3xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = "linalg.reduce"(%t, %g) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: f32, %b: f32):
    %v = "arith.addf"(%a, %b) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
    "linalg.yield"(%v) : (f32) -> ()
  }) : (tensor<4x3xf32>, tensor<4xf32>) -> tensor<4xf32>
  %w = "tensor.empty"() : () -> tensor<4x2xf32>
  %r = "linalg.broadcast"(%h, %w) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: f32, %b: f32):
    "linalg.yield"(%a) : (f32) -> ()
  }) : (tensor<4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %r : tensor<4x2xf32>
}"""


def test_linalg_ops_in_generic_form_are_imported() -> None:
    x = normal(3, 4)
    (result,) = evaluate(parse_text(GENERIC).graph, [x, normal(4, 3), np.ones(4, "f4")])
    np.testing.assert_allclose(result, np.stack([2 * x.sum(0) + 1] * 2, 1), rtol=1e-5)


MALFORMED = {
    "few_inputs": f"%a = linalg.matmul ins(%x : {T}) outs(%x : {T}) -> {T}",
    "nothing_to_fill_with": f"%a = linalg.fill outs(%x : {T}) -> {T}",
    "too_many": f"%a = linalg.exp ins(%x, %x : {T}, {T}) outs(%x : {T}) -> {T}",
    "no_fold": f"%e = tensor.empty() : tensor<6xf32>\n%a = linalg.reduce {{ arith.cmpf }} ins(%x : {T}) outs(%e : tensor<6xf32>) dimensions = [1]",
    "one_operand": f'%a = "arith.addf"(%x) : ({T}) -> {T}',
    "one_of_three": f'%a = "math.fma"(%x) : ({T}) -> {T}',
    "image_of_two_dims": f"%a = tosa.conv2d %x, %x, %x {{pad = array<i64: 0, 0, 0, 0>}} : ({T}, {T}, {T}) -> {T}",
    "one_number": "%t = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [2, 3, 4, 2] : " + T + " into tensor<2x3x4x2xf32>\n%a = tosa.max_pool2d %t {kernel = array<i64: 1>} : (tensor<2x3x4x2xf32>) -> tensor<2x3x4x2xf32>",
    "places_of_two_dims": f"%a = tosa.gather %x, %x : ({T}, {T}) -> {T}",
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_upstream_op_is_refused_at_its_location(name: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_text(f"func.func @f(%x: {T}) -> {T} {{\n{MALFORMED[name]}\nreturn %x : {T}\n}}")
    assert all(fault.loc is not None and fault.loc.line > 1 for fault in caught.value.diagnostics)


def test_scf_if_without_results_needs_no_else() -> None:
    text = """func.func @main(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  scf.if %c {
    %1 = math.exp %x : tensor<4xf32>
  }
  return %x : tensor<4xf32>
}"""
    assert not parse_text(text).graph.nodes


def test_unused_ml_program_global_is_ignored() -> None:
    body = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  BODY\n  return %x : tensor<4xf32>\n}"
    head = "ml_program.global private mutable @seed(dense<0> : tensor<i64>) : tensor<i64>\n"
    assert not parse_text(head + body.replace("BODY", "")).graph.nodes
    with pytest.raises(ProgramError, match=r"ml_program\.global_load"):
        parse_text(head + body.replace("BODY", "%s = ml_program.global_load @seed : tensor<i64>"))


def test_result_types_of_branches_may_have_parentheses() -> None:
    text = """func.func @main(%i: index, %p: i1, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = scf.index_switch %i -> ONE
  case 1 {
    %a = math.exp %x : tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  }
  default {
    scf.yield %x : tensor<4xf32>
  }
  %r = scf.if %p -> ONE {
    scf.yield %s : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r, %s : tensor<4xf32>, tensor<4xf32>
}"""
    x = normal(4)
    for kind in ("tensor<4xf32>", "(tensor<4xf32>)"):
        results = evaluate(parse_text(text.replace("ONE", kind)).graph, [np.array(1), np.array(True), x])
        np.testing.assert_allclose(results, [np.exp(x)] * 2, rtol=1e-6)
