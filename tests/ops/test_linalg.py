"""Tests of the linalg importer: every named op matches NumPy, sharded or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from tests.mlir.payload import Array, Case, convolve, normal, tensor, whole, windows_of

LAYOUTS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "conv_1d": ("w,w->w", (9,), (3,)),
    "conv_2d": ("hw,hw->hw", (9, 8), (3, 2)),
    "conv_3d": ("dhw,dhw->dhw", (7, 6, 5), (2, 2, 3)),
    "conv_1d_nwc_wcf": ("nwc,wcf->nwf", (2, 9, 3), (3, 3, 4)),
    "conv_1d_ncw_fcw": ("ncw,fcw->nfw", (2, 3, 9), (4, 3, 3)),
    "conv_2d_nhwc_hwcf": ("nhwc,hwcf->nhwf", (2, 9, 8, 3), (3, 2, 3, 4)),
    "conv_2d_nhwc_fhwc": ("nhwc,fhwc->nhwf", (2, 9, 8, 3), (4, 3, 2, 3)),
    "conv_2d_nchw_fchw": ("nchw,fchw->nfhw", (2, 3, 9, 8), (4, 3, 3, 2)),
    "conv_2d_ngchw_fgchw": ("ngchw,fgchw->ngfhw", (2, 2, 3, 7, 8), (4, 2, 3, 3, 2)),
    "conv_2d_ngchw_gfchw": ("ngchw,gfchw->ngfhw", (2, 2, 3, 7, 8), (2, 4, 3, 3, 2)),
    "conv_2d_nhwgc_gfhwc": ("nhwgc,gfhwc->nhwgf", (2, 7, 8, 2, 3), (2, 4, 3, 2, 3)),
    "conv_3d_ndhwc_dhwcf": ("ndhwc,dhwcf->ndhwf", (2, 5, 6, 7, 2), (2, 3, 2, 2, 3)),
    "conv_3d_ncdhw_fcdhw": ("ncdhw,fcdhw->nfdhw", (2, 2, 5, 6, 7), (3, 2, 2, 3, 2)),
    "depthwise_conv_1d_nwc_wc": ("nwc,wc->nwc", (2, 9, 3), (3, 3)),
    "depthwise_conv_1d_ncw_cw": ("ncw,cw->ncw", (2, 3, 9), (3, 3)),
    "depthwise_conv_1d_nwc_wcm": ("nwc,wcm->nwcm", (2, 9, 3), (3, 3, 2)),
    "depthwise_conv_2d_nhwc_hwc": ("nhwc,hwc->nhwc", (2, 9, 8, 3), (3, 2, 3)),
    "depthwise_conv_2d_nchw_chw": ("nchw,chw->nchw", (2, 3, 9, 8), (3, 3, 2)),
    "depthwise_conv_2d_nhwc_hwcm": ("nhwc,hwcm->nhwcm", (2, 9, 8, 3), (3, 2, 3, 2)),
    "depthwise_conv_3d_ndhwc_dhwc": ("ndhwc,dhwc->ndhwc", (2, 5, 6, 7, 2), (2, 3, 2, 2)),
    "depthwise_conv_3d_ncdhw_cdhw": ("ncdhw,cdhw->ncdhw", (2, 2, 5, 6, 7), (2, 2, 3, 2)),
    "depthwise_conv_3d_ndhwc_dhwcm": ("ndhwc,dhwcm->ndhwcm", (2, 5, 6, 7, 2), (2, 3, 2, 2, 3)),
    "pooling_nhwc_sum": ("nhwc,hw->nhwc", (2, 9, 8, 3), (3, 2)),
    "pooling_nhwc_max": ("nhwc,hw->nhwc", (2, 9, 8, 3), (3, 2)),
    "pooling_nhwc_min": ("nhwc,hw->nhwc", (2, 9, 8, 3), (3, 2)),
    "pooling_nchw_sum": ("nchw,hw->nchw", (2, 3, 9, 8), (3, 2)),
    "pooling_nchw_max": ("nchw,hw->nchw", (2, 3, 9, 8), (3, 2)),
    "pooling_nwc_sum": ("nwc,w->nwc", (2, 9, 3), (3,)),
    "pooling_nwc_max": ("nwc,w->nwc", (2, 9, 3), (3,)),
    "pooling_nwc_min": ("nwc,w->nwc", (2, 9, 3), (3,)),
    "pooling_ncw_sum": ("ncw,w->ncw", (2, 3, 9), (3,)),
    "pooling_ncw_max": ("ncw,w->ncw", (2, 3, 9), (3,)),
    "pooling_ndhwc_sum": ("ndhwc,dhw->ndhwc", (2, 5, 6, 7, 2), (2, 3, 2)),
    "pooling_ndhwc_max": ("ndhwc,dhw->ndhwc", (2, 5, 6, 7, 2), (2, 3, 2)),
    "pooling_ndhwc_min": ("ndhwc,dhw->ndhwc", (2, 5, 6, 7, 2), (2, 3, 2)),
}
STARTS = {"max": "0xFF800000", "min": "0x7F800000"}
FOLDS: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}


def window(name: str, strides: Sequence[int] | None = None, dilations: Sequence[int] | None = None) -> Case:
    """Return a test case of a convolution or pooling op with optional `strides` and `dilations` per spatial dim."""
    equation, image, kernel = LAYOUTS[name]
    count = sum(x in "dhw" for x in equation.split(",")[0])
    steps = [tuple(values or (1,) * count) for values in (strides, dilations)]
    fold = name.split("_")[-1]

    def expected(x: Array, w: Array) -> Array:
        if fold not in FOLDS:
            return convolve(x, w, equation, *steps)
        view = windows_of(x, equation, w.shape, *steps)
        return FOLDS[fold](view, axis=tuple(range(x.ndim, view.ndim)))

    arguments = {"x": normal(*image), "w": normal(*kernel, seed=1)}
    out = tensor(expected(*arguments.values()).astype("f4"))
    named = "".join(
        f"{word} = dense<{list(values)}> : tensor<{count}xi64>, " if values else ""
        for word, values in (("dilations", dilations), ("strides", strides))
    ).rstrip(", ")
    attributes = f"{{{named}}} " if named else ""
    body = f"""  %c = arith.constant {STARTS.get(fold, "0.0")} : f32
  %e = tensor.empty() : {out}
  %i = linalg.fill ins(%c : f32) outs(%e : {out}) -> {out}
  %r = linalg.{name} {attributes}ins(%x, %w : {tensor(arguments["x"])}, {tensor(arguments["w"])}) outs(%i : {out}) -> {out}"""
    return Case(arguments, body, lambda x, w: expected(x, w).astype("f4"))


@pytest.mark.parametrize("name", LAYOUTS)
def test_window_op_of_every_layout_matches_numpy(name: str) -> None:
    module = window(name).matches()
    kinds = {"convolution", "reduce_window"} & {node.op for node in module.graph.nodes}
    assert len(kinds) == 1


@pytest.mark.parametrize("strides, dilations", [((2, 1), None), (None, (1, 3)), ((2, 3), (2, 1))])
@pytest.mark.parametrize("name", ["conv_2d_nhwc_hwcf", "conv_2d_nchw_fchw", "depthwise_conv_2d_nhwc_hwcm",
                                  "pooling_nhwc_max", "pooling_nchw_sum", "conv_2d"])  # fmt: skip
def test_window_op_with_strides_and_dilations_matches_numpy(
    name: str, strides: Sequence[int] | None, dilations: Sequence[int] | None
) -> None:
    window(name, strides, dilations).matches()


# Expected traffic: sharding batch or channels moves nothing; a sharded spatial dim exchanges edge rows once per side.
SPLIT_WINDOWS = [
    ("conv_2d_nhwc_hwcf", "2", {"x": "[[0]]"}, {}),
    ("conv_2d_nhwc_hwcf", "2", {"w": "[[], [], [], [0]]"}, {}),
    ("conv_2d_nhwc_hwcf", "3", {"x": "[[], [0]]", "r": "[[], [0]]"}, {"fetch_rows": 1}),
    ("conv_2d_nchw_fchw", "2x2", {"x": "[[], [], [0], [1]]", "r": "[[], [], [0], [1]]"}, {"fetch_rows": 2}),
    ("conv_1d_nwc_wcf", "4", {"x": "[[], [0]]", "r": "[[], [0]]"}, {"fetch_rows": 1}),
    ("conv_3d_ndhwc_dhwcf", "2", {"x": "[[], [0]]", "r": "[[], [0]]"}, {"fetch_rows": 1}),
    ("depthwise_conv_2d_nhwc_hwc", "3", {"x": "[[], [], [], [0]]"}, {}),
    ("depthwise_conv_2d_nhwc_hwc", "2", {"x": "[[], [], [], [0]]"}, {}),
    ("depthwise_conv_2d_nhwc_hwcm", "3", {"x": "[[], [], [], [0]]"}, {}),
    ("depthwise_conv_1d_nwc_wcm", "2x3", {"x": "[[0], [], [1]]"}, {}),
    ("conv_2d_ngchw_fgchw", "2", {"x": "[[], [0]]"}, {}),
    ("conv_2d_nhwgc_gfhwc", "2", {"x": "[[], [], [], [0]]"}, {}),
    ("depthwise_conv_2d_nchw_chw", "2", {"x": "[[], [], [0]]", "r": "[[], [], [0]]"}, {"fetch_rows": 1}),
    ("pooling_nhwc_max", "2x3", {"x": "[[0], [], [], [1]]"}, {}),
    ("pooling_nhwc_sum", "4", {"x": "[[], [0]]", "r": "[[], [0]]"}, {"fetch_rows": 1}),
    ("pooling_ncw_max", "3", {"x": "[[], [], [0]]", "r": "[[], [], [0]]"}, {"fetch_rows": 1}),
]  # fmt: skip


@pytest.mark.parametrize("name, grid, splits, moved", SPLIT_WINDOWS, ids=lambda x: str(x) if isinstance(x, str) else "")
def test_sharded_window_op_moves_only_halo_rows(
    name: str, grid: str, splits: dict[str, str], moved: dict[str, int]
) -> None:
    assert window(name).moved(grid, splits) == moved


def contraction(name: str, equation: str, left: Sequence[int], right: Sequence[int], attributes: str = "",
            body: str = "ins(%x, %w : {x}, {w}) outs(%z : {z}) -> {z}") -> Case:  # fmt: skip
    """Return a test case of a contraction that accumulates into `z`."""
    x, w = normal(*left), normal(*right, seed=1)
    z = normal(*np.einsum(equation, x, w).shape, seed=2)
    text = body.format(x=tensor(x), w=tensor(w), z=tensor(z))
    return Case({"x": x, "w": w, "z": z}, f"  %r = linalg.{name} {attributes}{text}",
                lambda x, w, z: z + np.einsum(equation, x, w))  # fmt: skip


def maps(*words: str) -> str:
    """Return an `indexing_maps` attribute; each word names the dims of one operand by letters."""
    loops = ", ".join(dict.fromkeys("".join([words[-1], *words])))
    return "indexing_maps = [" + ", ".join(f"affine_map<({loops}) -> ({', '.join(w)})>" for w in words) + "] "


CONTRACTIONS = {
    "matmul": contraction("matmul", "mk,kn->mn", (3, 5), (5, 4)),
    "matmul_by_maps": contraction("matmul", "km,nk->mn", (5, 3), (4, 5), maps("km", "nk", "mn")),
    "matmul_broadcast": contraction("batch_matmul", "mk,bkn->bmn", (3, 5), (2, 5, 4), maps("mk", "bkn", "bmn")),
    "matmul_transpose_a": contraction("matmul_transpose_a", "km,kn->mn", (5, 3), (5, 4)),
    "matmul_transpose_b": contraction("matmul_transpose_b", "mk,nk->mn", (3, 5), (4, 5)),
    "batch_matmul": contraction("batch_matmul", "bmk,bkn->bmn", (2, 3, 5), (2, 5, 4)),
    "batch_matmul_transpose_a": contraction("batch_matmul_transpose_a", "bkm,bkn->bmn", (2, 5, 3), (2, 5, 4)),
    "batch_matmul_transpose_b": contraction("batch_matmul_transpose_b", "bmk,bnk->bmn", (2, 3, 5), (2, 4, 5)),
    "batch_reduce_matmul": contraction("batch_reduce_matmul", "bmk,bkn->mn", (2, 3, 5), (2, 5, 4)),
    "matvec": contraction("matvec", "mk,k->m", (3, 5), (5,)),
    "vecmat": contraction("vecmat", "k,kn->n", (5,), (5, 4)),
    "batch_matvec": contraction("batch_matvec", "bmk,bk->bm", (2, 3, 5), (2, 5)),
    "batch_vecmat": contraction("batch_vecmat", "bk,bkn->bn", (2, 5), (2, 5, 4)),
    "dot": contraction("dot", "k,k->", (5,), (5,)),
    "mmt4d": contraction("mmt4d", "mkpq,nkrq->mnpr", (2, 3, 4, 2), (3, 3, 5, 2)),
    "batch_mmt4d": contraction("batch_mmt4d", "bmkpq,bnkrq->bmnpr", (2, 2, 3, 4, 2), (2, 3, 3, 5, 2)),
    "contract": contraction("contract", "aij,bji->ab", (3, 2, 4), (5, 4, 2), maps("aij", "bji", "ab")),
    "outer": contraction("contract", "abk,ck->cab", (3, 2, 4), (5, 4), maps("abk", "ck", "cab")),
    "summed_alone": contraction("contract", "aij,bj->ab", (3, 2, 4), (5, 4), maps("aij", "bj", "ab")),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contraction_op_becomes_one_dot_general(name: str) -> None:
    module = CONTRACTIONS[name].matches()
    assert [node.op for node in module.graph.nodes].count("dot_general") == 1


def test_matmul_in_generic_form_is_imported() -> None:
    x, w, z = normal(3, 5), normal(5, 4), normal(3, 4)
    body = """  %r = "linalg.matmul"(%x, %w, %z) <{operandSegmentSizes = array<i32: 2, 1>}> ({
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = "arith.mulf"(%a, %b) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
    %s = "arith.addf"(%c, %m) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
    "linalg.yield"(%s) : (f32) -> ()
  }) : (tensor<3x5xf32>, tensor<5x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>"""
    Case({"x": x, "w": w, "z": z}, body, lambda x, w, z: z + x @ w).matches()


BYTES = {"x": whole(3, 5, dtype="i1"), "w": whole(5, 4, dtype="i1", seed=1), "z": whole(3, 4, dtype="i4")}


@pytest.mark.parametrize("cast, view", [("", "i1"), ("{cast = #linalg.type_fn<cast_unsigned>} ", "u1")])
def test_matmul_widens_narrow_integers(cast: str, view: str) -> None:
    body = f"  %r = linalg.matmul {cast}ins(%x, %w : tensor<3x5xi8>, tensor<5x4xi8>) outs(%z : tensor<3x4xi32>) -> tensor<3x4xi32>"
    Case(BYTES, body, lambda x, w, z: z + x.view(view).astype("i4") @ w.view(view).astype("i4")).matches()


def test_quantized_matmul_subtracts_zero_points() -> None:
    body = """  %a = arith.constant 3 : i32
  %b = arith.constant -2 : i32
  %r = linalg.quantized_matmul ins(%x, %w, %a, %b : tensor<3x5xi8>, tensor<5x4xi8>, i32, i32) outs(%z : tensor<3x4xi32>) -> tensor<3x4xi32>"""
    module = Case(BYTES, body, lambda x, w, z: z + (x.astype("i4") - 3) @ (w.astype("i4") + 2)).matches()
    assert "dot_general" in [node.op for node in module.graph.nodes]


ELEMENTWISE: dict[str, tuple[int, Callable[..., Array]]] = {
    "add": (2, np.add), "sub": (2, np.subtract), "mul": (2, np.multiply), "div": (2, np.divide), "max": (2, np.maximum),
    "min": (2, np.minimum), "exp": (1, np.exp), "abs": (1, np.abs), "ceil": (1, np.ceil), "floor": (1, np.floor),
    "negf": (1, np.negative), "reciprocal": (1, lambda x: 1 / x), "square": (1, np.square), "tanh": (1, np.tanh),
    "round": (1, lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)), "copy": (1, lambda x: x),
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_named_op_matches_numpy(name: str) -> None:
    count, function = ELEMENTWISE[name]
    arguments = {"x": normal(3, 5), "y": normal(3, 5, seed=1)}
    types = ", ".join(["tensor<3x5xf32>"] * count)
    body = f"""  %e = tensor.empty() : tensor<3x5xf32>
  %r = linalg.{name} ins({", ".join(["%x", "%y"][:count])} : {types}) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>"""
    Case(arguments, body, lambda *x: function(*x[:count])).matches()
    if name != "copy":
        Case(
            arguments,
            body.replace(f"linalg.{name}", f"linalg.elementwise kind=#linalg.elementwise_kind<{name}>"),
            lambda *x: function(*x[:count]),
        ).matches()


@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "log", "erf"])
def test_elementwise_op_on_positive_numbers_matches_numpy(name: str) -> None:
    functions = {"sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "log": np.log, "erf": ERF}
    body = f"  %e = tensor.empty() : tensor<3x5xf32>\n  %r = linalg.{name} ins(%x : tensor<3x5xf32>) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>"
    Case({"x": np.abs(normal(3, 5))}, body, functions[name]).matches()


def ERF(x: Array) -> Array:
    import math

    return np.vectorize(math.erf)(x).astype("f4")


def test_matmul_over_sharded_contraction_needs_one_all_reduce() -> None:
    case = CONTRACTIONS["matmul"]
    assert case.moved("5", {"x": "[[], [0]]", "w": "[[0]]", "r": "[[]]"}) == {"all_reduce": 1}
    assert CONTRACTIONS["batch_matmul"].moved("2x2", {"x": "[[0], [1]]", "r": "[[0], [1]]"}) == {}
    wide = contraction("mmt4d", "mkpq,nkrq->mnpr", (4, 4, 2, 2), (2, 4, 3, 2))
    assert wide.moved("4", {"x": "[[0]]", "r": "[[0]]"}) == {}


@pytest.mark.parametrize(
    "strides", ["dense<2> : tensor<1xi64>", "dense<2> : vector<1xi64>", "[2]", "array<i64: 2>", "2 : i64"]
)
def test_strides_are_read_in_every_list_syntax(strides: str) -> None:
    """A scalar instead of a list is refused, not ignored."""
    text = f"""func.func @main(%x: tensor<1x4x1xf32>, %w: tensor<2x1x1xf32>) -> tensor<1x2x1xf32> {{
  %e = arith.constant dense<0.0> : tensor<1x2x1xf32>
  %r = linalg.conv_1d_nwc_wcf {{strides = {strides}}} ins(%x, %w : tensor<1x4x1xf32>, tensor<2x1x1xf32>) outs(%e : tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  return %r : tensor<1x2x1xf32>
}}"""
    if strides == "2 : i64":
        with pytest.raises(ProgramError, match="must be a list of integers"):
            parse_text(text)
        return
    x, w = np.array([1, 2, 3, 4], np.float32).reshape(1, 4, 1), np.array([1, 10], np.float32).reshape(2, 1, 1)
    assert evaluate(parse_text(text).graph, [x, w])[0].flatten().tolist() == [21, 43]
