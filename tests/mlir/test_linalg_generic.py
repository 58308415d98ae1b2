"""Tests of the linalg.generic importer: every form matches NumPy, sharded or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from tests.mlir.payload import Array, Case, normal, tensor, whole


def generic(arguments: dict[str, Array], reads: Sequence[str], loops: str, writes: str, body: str, out: Array | str,
            expected: Callable[..., Any], kinds: str, start: str = "", before: str = "", outputs: str = "f32") -> Case:  # fmt: skip
    """Return a case with one `linalg.generic`, whose result `%r` has type `out`.

    `reads` and `writes` are the index expressions of operands and result over the loop variables `loops`. `kinds` has
    one letter per loop: `p` (parallel) or `r` (reduction). `body` reads elements %a, %b, ... and the accumulator %o.
    """
    out = out if isinstance(out, str) else tensor(out)
    names = list(arguments)[: len(reads)]
    all_maps = ", ".join(f"affine_map<({loops}) -> ({indices})>" for indices in (*reads, writes))
    iterators = ", ".join(f'"{"parallel" if kind == "p" else "reduction"}"' for kind in kinds)
    inputs = (
        f"ins({', '.join(f'%{n}' for n in names)} : {', '.join(tensor(arguments[n]) for n in names)}) " if names else ""
    )
    block_arguments = ", ".join(
        [
            *(
                f"%{chr(97 + n)}: {tensor(arguments[name])[:-1].split('x')[-1].split('<')[-1]}"
                for n, name in enumerate(names)
            ),
            f"%o: {outputs}",
        ]
    )
    fill = (
        f"  %c0 = arith.constant {start} : {outputs}\n  %i = linalg.fill ins(%c0 : {outputs}) outs(%e : {out}) -> {out}\n"
        if start
        else ""
    )
    text = f"""  %e = tensor.empty() : {out}
{fill}{before}  %r = linalg.generic {{indexing_maps = [{all_maps}], iterator_types = [{iterators}]}} {inputs}outs({"%i" if start else "%e"} : {out}) {{
  ^bb0({block_arguments}):
    {body}
    linalg.yield %v : {outputs}
  }} -> {out}"""
    return Case(arguments, text, expected)


X, V, N = normal(6, 8), normal(8), whole(6, 8)
ADD, MAX = "%v = arith.addf %a, %o : f32", "%v = arith.maximumf %a, %o : f32"
GENERICS = {
    "constant_place": generic({"x": X}, ["2, j"], "i, j", "i, j", "%v = arith.negf %a : f32", np.zeros((3, 8), "f4"), lambda x: np.tile(-x[2], (3, 1)), "pp"),
    "strided_read": generic({"x": X, "y": normal(3, 4)}, ["i * 2, j * 2 + 1", "i, j"], "i, j", "i, j", "%v = arith.addf %a, %b : f32", np.zeros((3, 4), "f4"), lambda x, y: x[::2, 1::2] + y, "pp"),
    "reversed_read": generic({"x": V}, ["-i + 7"], "i", "i", "%v = arith.negf %a : f32", np.zeros(8, "f4"), lambda x: -x[::-1], "p"),
    "diagonal": generic({"x": X[:, :6].copy()}, ["i, i"], "i", "i", "%v = arith.negf %a : f32", np.zeros(6, "f4"), lambda x: -np.diag(x), "p"),
    "trace": generic({"x": X[:, :6].copy(), "y": normal(6)}, ["i, i", "i"], "i", "", "%m = arith.mulf %a, %b : f32\n %v = arith.addf %m, %o : f32", np.zeros((), "f4"), lambda x, y: (np.diag(x) * y).sum(), "r", "0.0"),
    "digits": generic({"x": V}, ["i * 2 + j"], "i, j", "j, i", "%v = arith.negf %a : f32", np.zeros((2, 4), "f4"), lambda x: -x.reshape(4, 2).T, "pp"),
    "repeated": generic({"x": V}, ["i floordiv 3"], "i", "i", "%v = arith.negf %a : f32", np.zeros(22, "f4"), lambda x: -np.repeat(x, 3)[:22], "p"),
    "cyclic": generic({"x": V}, ["i mod 5"], "i", "i", "%v = arith.negf %a : f32", np.zeros(12, "f4"), lambda x: -np.resize(x[:5], 12), "p"),
    "window_of_max_abs": generic({"x": V, "w": normal(3)}, ["i + k", "k"], "i, k", "i", "%n = math.absf %a : f32\n %v = arith.maximumf %o, %n : f32", np.zeros(6, "f4"), lambda x, w: np.abs(np.lib.stride_tricks.sliding_window_view(x, 3)).max(1), "pr", "0xFF800000"),
    "window_of_differences": generic({"x": V, "w": normal(3, seed=4)}, ["i + k", "k"], "i, k", "i", "%n = arith.subf %a, %b : f32\n %q = arith.mulf %n, %n : f32\n %v = arith.addf %o, %q : f32", np.zeros(6, "f4"), lambda x, w: ((np.lib.stride_tricks.sliding_window_view(x, 3) - w) ** 2).sum(1), "pr", "0.0"),
    "true_convolution": generic({"x": V, "w": normal(3, seed=4)}, ["i - k + 2", "k"], "i, k", "i", "%n = arith.mulf %a, %b : f32\n %v = arith.addf %o, %n : f32", np.zeros(6, "f4"), lambda x, w: np.convolve(x, w, "valid"), "pr", "0.0"),
    "offset_convolution": generic({"x": V, "w": normal(3, seed=4)}, ["i * 2 + k + 1", "k"], "i, k", "i", "%n = arith.mulf %b, %a : f32\n %v = arith.addf %n, %o : f32", np.zeros(2, "f4"), lambda x, w: np.stack([x[1:4] @ w, x[3:6] @ w]), "pr", "0.0"),
    "kernel_is_computed": generic({"x": V, "w": normal(3, seed=4), "s": normal()}, ["i + k", "k", ""], "i, k", "i", "%h = arith.mulf %b, %c : f32\n %n = arith.mulf %a, %h : f32\n %v = arith.addf %n, %o : f32", np.zeros(6, "f4"), lambda x, w, s: np.correlate(x, w * s, "valid"), "pr", "0.0"),
    "ones_in_the_output": generic({"x": X}, ["i, j"], "i, j", "i, 0", ADD, np.zeros((6, 1), "f4"), lambda x: x.sum(1, keepdims=True), "pr", "0.0"),
    "everything": generic({"x": X}, ["i, j"], "i, j", "", ADD, np.zeros((), "f4"), lambda x: x.sum(), "rr", "0.0"),
    "fused_multiply_add": generic({"x": X, "y": V}, ["i, j", "j"], "i, j", "i", "%v = math.fma %a, %b, %o : f32", np.zeros(6, "f4"), lambda x, y: x @ y, "pr", "0.0"),
    "two_terms": generic({"x": X, "y": V}, ["i, j", "j"], "i, j", "i", "%t = arith.addf %o, %a : f32\n %v = arith.subf %t, %b : f32", np.zeros(6, "f4"), lambda x, y: x.sum(1) - y.sum() + 2, "pr", "2.0"),
    "three_factors": generic({"x": X, "y": V}, ["i, j", "j"], "i, j", "i", "%t = arith.mulf %a, %b : f32\n %u = arith.mulf %t, %b : f32\n %v = arith.addf %o, %u : f32", np.zeros(6, "f4"), lambda x, y: x @ (y * y), "pr", "0.0"),
    "product": generic({"x": X}, ["i, j"], "i, j", "j", "%v = arith.mulf %o, %a : f32", np.zeros(8, "f4"), lambda x: 3 * x.prod(0), "rp", "3.0"),
    "least": generic({"x": X}, ["i, j"], "i, j", "j", "%v = arith.minimumf %o, %a : f32", np.zeros(8, "f4"), lambda x: x.min(0), "rp", "0x7F800000"),
    "quotient": generic({"x": X}, ["i, j"], "i, j", "j", "%v = arith.divf %o, %a : f32", np.zeros(8, "f4"), lambda x: 1 / x.prod(0), "rp", "1.0"),
    "polynomial": generic({"x": X, "y": V}, ["i, j", "j"], "i, j", "i", "%t = arith.mulf %o, %b : f32\n %v = arith.addf %t, %a : f32", np.zeros(6, "f4"), lambda x, y: np.array([_horner(row, y) for row in x]), "pr", "1.0"),
    "last": generic({"x": X}, ["i, j"], "i, j", "i", "%v = arith.negf %a : f32", np.zeros(6, "f4"), lambda x: -x[:, -1], "pr", "1.0"),
    "and": generic({"x": N}, ["i, j"], "i, j", "i", "%v = arith.andi %o, %a : i32", "tensor<6xi32>", lambda x: np.bitwise_and.reduce(x, 1), "pr", "-1", outputs="i32"),
    "or": generic({"x": N}, ["i, j"], "i, j", "i", "%v = arith.ori %o, %a : i32", "tensor<6xi32>", lambda x: np.bitwise_or.reduce(x, 1), "pr", "0", outputs="i32"),
    "xor": generic({"x": N}, ["i, j"], "i, j", "i", "%v = arith.xori %o, %a : i32", "tensor<6xi32>", lambda x: np.bitwise_xor.reduce(x, 1) ^ 5, "pr", "5", outputs="i32"),
    "greatest_unsigned": generic({"x": N}, ["i, j"], "i, j", "i", "%v = arith.maxui %o, %a : i32", "tensor<6xi32>", lambda x: x.view("u4").max(1).view("i4"), "pr", "0", outputs="i32"),
    "least_unsigned": generic({"x": N}, ["i, j"], "i, j", "i", "%v = arith.minui %o, %a : i32", "tensor<6xi32>", lambda x: np.minimum(x.view("u4").min(1), 7).view("i4"), "pr", "7", outputs="i32"),
    "any": generic({"x": N > 6}, ["i, j"], "i, j", "i", "%v = arith.ori %o, %a : i1", "tensor<6xi1>", lambda x: x.any(1), "pr", "0", outputs="i1"),
    "parity": generic({"x": N > 0}, ["i, j"], "i, j", "i", "%v = arith.addi %o, %a : i1", "tensor<6xi1>", lambda x: x.sum(1) % 2 == 1, "pr", "0", outputs="i1"),
    "ignores_nan": generic({"x": np.where(X > 0, X, np.nan).astype("f4")}, ["i, j"], "i, j", "i", "%v = arith.maxnumf %o, %a : f32", np.zeros(6, "f4"), lambda x: np.nanmax(np.column_stack([x, -np.ones(6)]), 1), "pr", "-1.0"),
    "index_of_reduced": generic({"x": X}, ["i, j"], "i, j", "i", "%n = linalg.index 1 : index\n %m = arith.index_cast %n : index to i32\n %f = arith.sitofp %m : i32 to f32\n %p = arith.mulf %a, %f : f32\n %v = arith.addf %o, %p : f32", np.zeros(6, "f4"), lambda x: x @ np.arange(8), "pr", "0.0"),
    "masked": generic({"x": X}, ["i, j"], "i, j", "i, j", "%n = linalg.index 1 : index\n %m = linalg.index 0 : index\n %g = arith.cmpi sle, %n, %m : index\n %z = arith.constant 0.0 : f32\n %v = arith.select %g, %a, %z : f32", np.zeros((6, 8), "f4"), lambda x: np.tril(x), "pp"),
    "conditional": generic({"x": X}, ["i, j"], "i, j", "i, j", "%z = arith.constant 0.0 : f32\n %g = arith.cmpf ogt, %a, %z : f32\n %v = scf.if %g -> (f32) {\n %n = math.sqrt %a : f32\n scf.yield %n : f32\n } else {\n scf.yield %z : f32\n }", np.zeros((6, 8), "f4"), lambda x: np.sqrt(np.maximum(x, 0)), "pp"),
    "lookup": generic({"k": whole(5, low=0, high=6), "t": X}, ["i"], "i, j", "i, j", "%n = arith.index_cast %a : i32 to index\n %j = linalg.index 1 : index\n %v = tensor.extract %t[%n, %j] : tensor<6x8xf32>", np.zeros((5, 8), "f4"), lambda k, t: t[k], "pp"),
    "lookup_both": generic({"k": whole(5, low=0, high=6), "t": X}, ["i"], "i", "i", "%n = arith.index_cast %a : i32 to index\n %j = linalg.index 0 : index\n %q = arith.addi %j, %j : index\n %c3 = arith.constant 7 : index\n %p = arith.minui %q, %c3 : index\n %v = tensor.extract %t[%n, %p] : tensor<6x8xf32>", np.zeros(5, "f4"), lambda k, t: t[k, np.minimum(2 * np.arange(5), 7)], "p"),
}  # fmt: skip


def _horner(row: Array, factors: Array) -> np.float32:
    total = np.float32(1)
    for a, b in zip(row, factors, strict=True):
        total = np.float32(total * b + a)
    return total


@pytest.mark.parametrize("name", GENERICS)
def test_generic_matches_numpy(name: str) -> None:
    GENERICS[name].matches()


@pytest.mark.parametrize("axes", ["[[0]]", "[[], [0]]"])
@pytest.mark.parametrize("name", GENERICS)
def test_sharded_generic_matches_numpy(name: str, axes: str) -> None:
    """Shards on three devices are uneven, since no size is a multiple of three."""
    case = GENERICS[name]
    names = [name for name, array in case.arguments.items() if array.ndim > axes.count(", ")]
    if names:
        case.moved("3", dict.fromkeys(names, axes))


def generic_text(reads: Sequence[str], loops: str, writes: str, body: str, kinds: str = "pr") -> str:
    """Return the text of a `linalg.generic` on a 6x8 operand; see `generic` for the parameters."""
    return generic({"x": X}, reads, loops, writes, body, "tensor<6xf32>", lambda x: x[:, 0], kinds, "0.0").text()


REFUSED = {
    "writes_at_a_sum": (generic_text(["i, j"], "i, j", "i + j", ADD), "writes at"),
    "reads_outside": (generic_text(["i + 1, j", "i, j"], "i, j", "i", ADD).replace("ins(%x", "ins(%x, %x").replace("ins(%x, %x : ", "ins(%x, %x : tensor<6x8xf32>, ").replace("%o: f32", "%b: f32, %o: f32"), "reads (d0 + 1) from 1 to 6 in a dim of size 6"),
    "sizes_differ": (generic_text(["j, i"], "i, j", "i", ADD), "loop 0 has the sizes 8 and 6"),
    "unknown_loop": (generic_text(["i, j + k"], "i, j, k", "i", ADD, "prr"), "no operand determines the trip count of loop 1"),
    "unknown_operation": (generic_text(["i, j"], "i, j", "i", "%c = func.call @g(%a) : (f32) -> f32\n %v = arith.addf %o, %c : f32"), "func.call"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_generic_is_refused_at_its_location(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0103" and message in fault.message and fault.loc is not None
