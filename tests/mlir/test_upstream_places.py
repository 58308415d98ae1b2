"""Tests of index, affine, unordered loops, and slices at computed offsets, compared with NumPy, sharded or not."""

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from tests.mlir.payload import Case, normal, whole

X, T = normal(6, 8), "tensor<6x8xf32>"
PLACES = whole(5, 2, dtype="i8", low=0, high=6)
N = np.array(2)
FROM_N = "  %n_ = tensor.extract %n[] : tensor<i64>\n  %k = arith.index_cast %n_ : i64 to index\n"


def constants(**numbers: int) -> str:
    return "".join(f"  %{name} = arith.constant {number} : index\n" for name, number in numbers.items())


def cut(offset: str) -> str:
    return f"  %r = tensor.extract_slice %x[{offset}, 0] [2, 8] [1, 1] : {T} to tensor<2x8xf32>"


def tiles(head: str, at: str, sizes: str, types: str) -> str:
    """Return a `scf.forall` that negates tiles of its operand."""
    return f"""  %e = tensor.empty() : {T}
  %r = scf.forall {head} shared_outs(%o = %e) -> ({T}) {{
{at}    %t = tensor.extract_slice %x[%i, %j] [{sizes}] [1, 1] : {T} to {types}
    %m = arith.negf %t : {types}
    scf.forall.in_parallel {{
      tensor.parallel_insert_slice %m into %o[%i, %j] [{sizes}] [1, 1] : {types} into {T}
    }}
  }} {{mapping = [#gpu.block<y>, #gpu.block<x>]}}"""


CASES = {
    "gather": Case({"x": X, "p": PLACES[:, :1]}, f"  %i = arith.index_cast %p : tensor<5x1xi64> to tensor<5x1xindex>\n  %r = tensor.gather %x[%i] gather_dims([1]) : ({T}, tensor<5x1xindex>) -> tensor<5x6xf32>", lambda x, p: x[:, p[:, 0]].T),
    "gather_ones": Case({"x": X, "p": PLACES[:, :1]}, f"  %i = arith.index_cast %p : tensor<5x1xi64> to tensor<5x1xindex>\n  %r = tensor.gather %x[%i] gather_dims([0]) unique : ({T}, tensor<5x1xindex>) -> tensor<5x1x8xf32>", lambda x, p: x[p[:, 0]][:, None]),
    "gather_points": Case({"x": X, "p": PLACES}, f"  %i = arith.index_cast %p : tensor<5x2xi64> to tensor<5x2xindex>\n  %r = tensor.gather %x[%i] gather_dims([0, 1]) : ({T}, tensor<5x2xindex>) -> tensor<5xf32>", lambda x, p: x[p[:, 0], p[:, 1]]),
    "scatter": Case({"x": X, "u": normal(3, 6, 1)}, f"  %i = arith.constant dense<[[1], [7], [0]]> : tensor<3x1xindex>\n  %r = tensor.scatter %u into %x[%i] scatter_dims([1]) unique : (tensor<3x6x1xf32>, {T}, tensor<3x1xindex>) -> {T}", lambda x, u: np.concatenate([u[2], u[0], x[:, 2:7], u[1]], 1)),
    "scatter_rows": Case({"x": X, "u": normal(2, 8)}, f"  %i = arith.constant dense<[[4], [2]]> : tensor<2x1xindex>\n  %r = tensor.scatter %u into %x[%i] scatter_dims([0]) unique : (tensor<2x8xf32>, {T}, tensor<2x1xindex>) -> {T}", lambda x, u: np.stack([x[0], x[1], u[1], x[3], u[0], x[5]])),
    "rank": Case({"x": X}, f"  %k = tensor.rank %x : {T}\n  %i = arith.index_cast %k : index to i32\n  %r = tensor.splat %i : tensor<2xi32>", lambda x: np.full(2, 2, "i4")),
    "bitcast": Case({"x": X}, f"  %r = tensor.bitcast %x : {T} to tensor<6x8xi32>", lambda x: x.view("i4")),
    "affine_known": Case({"x": X}, constants(a=5) + "  %k = affine.apply affine_map<(d0)[s0] -> (d0 mod 3 + s0 floordiv 4 - 1)>(%a)[%a]\n" + cut("%k"), lambda x: x[2:4]),
    "affine_size": Case({"x": X}, constants(a=5) + f"  %k = affine.min affine_map<(d0) -> (d0, -d0 + 9)>(%a)\n  %r = tensor.extract_slice %x[0, 0] [%k, 8] [1, 1] : {T} to tensor<4x8xf32>", lambda x: x[:4]),
    "affine_moves": Case({"x": X, "n": N}, FROM_N + "  %l = affine.apply affine_map<(d0)[s0] -> ((d0 * 2 - 5) mod 3 + s0 ceildiv 4)>(%k)[%k]\n" + cut("%l"), lambda x, n: x[3:5]),
    "affine_max": Case({"x": X, "n": N}, FROM_N + "  %l = affine.max affine_map<(d0) -> (d0, 3)>(%k)\n" + cut("%l"), lambda x, n: x[3:5]),
    "affine_in_body": Case({"x": X}, f"  %e = tensor.empty() : {T}\n  %r = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = [\"parallel\", \"parallel\"]}} outs(%e : {T}) {{\n  ^bb0(%o: f32):\n    %i = linalg.index 0 : index\n    %j = linalg.index 1 : index\n    %k = affine.apply affine_map<(d0, d1) -> ((d0 + d1) mod 6)>(%i, %j)\n    %v = tensor.extract %x[%k, %j] : {T}\n    linalg.yield %v : f32\n  }} -> {T}", lambda x: x[np.add.outer(np.arange(6), np.arange(8)) % 6, np.arange(8)]),
    "index_known": Case({"x": X}, "  %a = index.constant 7\n  %b = index.constant 2\n  %k = index.ceildivs %a, %b\n" + cut("%k"), lambda x: x[4:6]),
    "index_moves": Case({"x": X, "n": N}, "  %n_ = tensor.extract %n[] : tensor<i64>\n  %a = index.casts %n_ : i64 to index\n  %b = index.constant 3\n  %c = index.cmp slt(%a, %b)\n  %d = index.add %a, %b\n  %k = arith.select %c, %b, %d : index\n" + cut("%k"), lambda x, n: x[3:5]),
    "forall": Case({"x": X}, tiles("(%i, %j) = (0, 0) to (6, 8) step (2, 4)", "", "2, 4", "tensor<2x4xf32>"), lambda x: -x),
    "forall_in": Case({"x": X}, constants(c2=2, c3=3) + tiles("(%a, %b) in (%c2, 4)", "    %i = arith.muli %a, %c3 : index\n    %j = arith.muli %b, %c2 : index\n", "3, 2", "tensor<3x2xf32>"), lambda x: -x),
    "forall_two": Case({"x": X}, f"  %z = arith.constant 0.0 : f32\n  %e = tensor.splat %z : {T}\n  %f = tensor.splat %z : tensor<6xf32>\n  %r0, %r1 = scf.forall (%i) in (6) shared_outs(%o = %e, %p = %f) -> ({T}, tensor<6xf32>) {{\n    %t = tensor.extract_slice %x[%i, 0] [1, 8] [1, 1] : {T} to tensor<8xf32>\n    %y = tensor.extract_slice %x[%i, 0] [1, 1] [1, 1] : {T} to tensor<1xf32>\n    scf.forall.in_parallel {{\n      tensor.parallel_insert_slice %t into %o[%i, 0] [1, 8] [1, 1] : tensor<8xf32> into {T}\n      tensor.parallel_insert_slice %y into %p[%i] [1] [1] : tensor<1xf32> into tensor<6xf32>\n    }}\n  }}", lambda x: (x, x[:, 0])),
    "parallel": Case({"x": X}, constants(a=0, b=1, c=6, d=8) + f"  %z = arith.constant 1.0 : f32\n  %s, %m = scf.parallel (%i, %j) = (%b, %a) to (%c, %d) step (%b, %b) init (%z, %z) -> (f32, f32) {{\n    %v = tensor.extract %x[%i, %j] : {T}\n    scf.reduce(%v, %v : f32, f32) {{\n    ^bb0(%p: f32, %q: f32):\n      %t = arith.addf %p, %q : f32\n      scf.reduce.return %t : f32\n    }}, {{\n    ^bb0(%p: f32, %q: f32):\n      %t = arith.maximumf %p, %q : f32\n      scf.reduce.return %t : f32\n    }}\n  }}\n  %r = tensor.from_elements %s, %m : tensor<2xf32>", lambda x: np.array([1 + x[1:].sum(), max(1, x[1:].max())])),
    "for_of_one": Case({"x": X}, constants(a=0, b=1, c=3) + f"  %r = scf.for %i = %a to %c step %b iter_args(%v = %x) -> {T} {{\n    %w = arith.addf %v, %x : {T}\n    scf.yield %w : {T}\n  }}", lambda x: 4 * x),
    "assert": Case({"x": X, "n": N}, FROM_N + constants(b=3) + '  %c = arith.cmpi slt, %k, %b : index\n  cf.assert %c, "few rows"\n' + cut("%k"), lambda x, n: x[2:4]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_op_with_computed_indices_matches_numpy(case: Case) -> None:
    case.matches()


@pytest.mark.parametrize("splits", [{"x": "[[0]]"}, {"x": "[[1], [0]]"}], ids=str)
@pytest.mark.parametrize(
    "name", ["gather", "gather_points", "scatter", "affine_in_body", "forall", "parallel", "assert"]
)
def test_sharded_op_with_computed_indices_matches_numpy(name: str, splits: dict[str, str]) -> None:
    CASES[name].moved("2x3", splits)


FAULTS = {
    "gather_dims": (f"  %i = arith.constant dense<0> : tensor<3x1xindex>\n  %r = tensor.gather %x[%i] gather_dims([2]) : ({T}, tensor<3x1xindex>) -> {T}", "[2] must be dims of f32[6,8]"),
    "gather_shape": (f"  %i = arith.constant dense<0> : tensor<3x1xindex>\n  %r = tensor.gather %x[%i] gather_dims([0]) : ({T}, tensor<3x1xindex>) -> {T}", "expected slices f32[3,1,8] or f32[3,8], got f32[6,8]"),
    "scatter_unique": (f"  %i = arith.constant dense<0> : tensor<6x1xindex>\n  %r = tensor.scatter %x into %x[%i] scatter_dims([0]) : ({T}, {T}, tensor<6x1xindex>) -> {T}", "indices that may be equal have no defined result"),
    "forall_open": ("  %k = tensor.extract %n[] : tensor<index>\n" + tiles("(%i, %j) in (%k, 1)", "", "1, 8", "tensor<1x8xf32>"), "scf.forall: its trip count is not known at compile time"),
    "forall_elsewhere": (tiles("(%i, %j) in (1, 1)", "", "6, 8", T).replace("into %o[", "into %x["), "tensor.parallel_insert_slice does not write into a shared output of scf.forall"),
    "parallel_results": (constants(a=0, b=1) + "  %r = scf.parallel (%i) = (%a) to (%b) step (%b) init (%x) -> " + T + " {\n    scf.reduce\n  }", "scf.parallel: region 0 yields 0 values instead of 1"),
    "assert_false": ('  %c = arith.constant false\n  cf.assert %c, "never"\n  %r = arith.negf %x : ' + T, "cf.assert: the asserted condition is false"),
    "affine_operands": ("  %k = arith.constant 1 : index\n  %l = affine.apply affine_map<(d0, d1) -> (d0)>(%k)\n  %r = arith.negf %x : " + T, "expected an affine map, and an index for each of its dims and symbols"),
}  # fmt: skip


@pytest.mark.parametrize("body, message", FAULTS.values(), ids=FAULTS)
def test_invalid_use_of_computed_indices_is_refused(body: str, message: str) -> None:
    text = f"func.func @main(%x: {T}, %n: tensor<index>) -> {T} {{\n{body}\n  return %r : {T}\n}}"
    with pytest.raises(ProgramError) as caught:
        parse_text(text, "p.mlir")
    diagnostics = caught.value.diagnostics
    assert any(message in fault.message and fault.loc is not None for fault in diagnostics), [
        str(diagnostic) for diagnostic in diagnostics
    ]


def test_index_of_nonexistent_loop_is_refused() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%x : tensor<4xf32>) {
  ^bb0(%o: f32):
    %k = linalg.index 1 : index
    %e = tensor.extract %x[%k] : tensor<4xf32>
    linalg.yield %e : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}"""
    with pytest.raises(ProgramError, match="has 1 loops") as caught:
        parse_text(text)
    fault = caught.value.diagnostics[0]
    assert fault.code == "MG0104" and fault.loc is not None and fault.loc.line == 4
