"""Which states annotations reach along an axis, and what the decisions on other axes leave of values."""

from __future__ import annotations

import pytest

from meshgen.api import read
from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import Module, Value
from meshgen.sharding.propagate import solve
from meshgen.sharding.propagation.amounts import view_of
from meshgen.sharding.propagation.labels import labels_of
from meshgen.sharding.propagation.reach import picks_of, reach
from meshgen.sharding.propagation.sites import Site, sites_of
from meshgen.sharding.propagation.states import Link
from meshgen.spec import P


def module_of(text: str, mesh: dict[str, int | None], **specs: object) -> Module:
    return read(text, mesh, in_specs=specs)[0]


def sites(module: Module) -> list[Site]:
    return sites_of(module, AxisParts.of(module.mesh, module.mesh.names))


def never(site: Site, factor: int) -> bool:
    return False


def of_op(found: list[Site], op: str) -> Site:
    return next(site for site in found if site.node.op == op)


SLICED = """func.func @main(%a: tensor<64x8xf32>) -> tensor<ROWSx8xf32> {
  %b = stablehlo.slice %a [8:END, 0:8] : (tensor<64x8xf32>) -> tensor<ROWSx8xf32>
  return %b : tensor<ROWSx8xf32>
}"""


@pytest.mark.parametrize(("rows", "leaves"), [(1, True), (4, True), (5, False), (16, False)])
def test_few_rows_of_a_split_dim_may_stay_partial_and_many_may_not(rows: int, leaves: bool) -> None:
    """A sum of 4 rows over 8 devices moves no more than gathering a padded row of each; of 5 rows it does."""
    module = module_of(SLICED.replace("ROWS", str(rows)).replace("END", str(8 + rows)), {"x": 8}, a=P("x", None))
    found = sites(module)
    cut = of_op(found, "slice")
    assert bool(picks_of(cut, 0, 0, 8)) == leaves
    assert ("sum" in reach(found, "x", 8, never).table[cut.node.result]) == leaves


@pytest.mark.parametrize(("kind", "passes"), [("sum", True), ("max", False)])
def test_a_partial_value_passes_an_op_that_is_linear_in_its_kind(kind: str, passes: bool) -> None:
    text = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
      %b = stablehlo.negate %a : tensor<8xf32>
      return %b : tensor<8xf32>
    }"""
    found = sites(module_of(text, {"x": 2}, a=P(None, partial={"x": kind})))
    assert (kind in reach(found, "x", 2, never).table.get(of_op(found, "negate").node.result, {})) == passes


SUMMED = """func.func @main(%a: tensor<16x32xf32>, %w: tensor<32x64xf32>) -> tensor<16x64xf32> {
  %h = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  %t = stablehlo.tanh %h : tensor<16x64xf32>
  return %t : tensor<16x64xf32>
}"""


def test_what_other_axes_leave_of_bytes_and_work() -> None:
    """Rows are split over x in 2, the contraction over y in 4: the dot's partial sums are whole where tanh reads them."""
    module = module_of(SUMMED, {"x": 2, "y": 4}, a=P("x", "y"), w=P("y", None))
    solved = solve(module)
    view = view_of(solved.axes.whole, solved.labels, solved.module.mesh)
    number = {site.node.op: n for n, site in enumerate(solved.sites)}
    dot, tanh = (of_op(solved.sites, op) for op in ("dot_general", "tanh"))

    def left(value: Value) -> float:
        return value.type.nbytes / view.nbytes(value)

    assert [left(value) for value in (*dot.node.operands, dot.node.result)] == [8, 4, 2]
    used = [view.used_bytes((number["dot_general"], i)) for i in (0, 1)] + [view.used_bytes((number["tanh"], 0))]
    assert used == [16 * 32 * 4 / 8, 32 * 64 * 4 / 4, 16 * 64 * 4 / 2]
    assert [site.seconds / view.work(site) for site in (dot, tanh)] == pytest.approx([8, 2])
    assert view.reduced == {(number["tanh"], 0): 4}
    assert view.moved == {(number["tanh"], 0)}


@pytest.mark.parametrize(("shape", "dim"), [("8x12x24", 2), ("8x24x12", 1), ("8x26x12", 2), ("8x26x14", None)])
def test_where_an_op_looks_along_the_whole_of_a_split_dim_its_largest_even_one_is_split_instead(shape: str, dim: int | None) -> None:  # fmt: skip
    text = f"""func.func @main(%a: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
      %b = "stablehlo.sort"(%a) <{{dimension = 0 : i64, is_stable = true}}> ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }}) : (tensor<{shape}xf32>) -> tensor<{shape}xf32>
      return %b : tensor<{shape}xf32>
    }}"""
    found = sites(module_of(text, {"x": 4}, a=P("x", None, None)))
    reached = reach(found, "x", 4, never).table.get(of_op(found, "sort").node.result, {})
    assert list(reached) == ([] if dim is None else [dim])


ONE_OP = "func.func @main(%a: tensor<ROWSx8xf32>) -> tensor<ROWSx8xf32> {\n  %b = stablehlo.tanh %a : tensor<ROWSx8xf32>\n  return %b : tensor<ROWSx8xf32>\n}"


@pytest.mark.parametrize(
    ("rows", "split", "nests", "is_listed"),
    [
        (24, 4, True, True), (24, 4, False, True), (24, 0, False, False), (12, 4, True, False), (12, 4, False, True),
        (12, 1, True, True), (13, 1, True, True), (13, 1, False, True),
    ],
)  # fmt: skip
def test_axis_splits_rows_evenly_or_without_nesting_in_other_tiles(
    rows: int, split: int, nests: bool, is_listed: bool
) -> None:
    """`split`: into how many parts other axes split the rows; 0 where one leaves them partial. The axis has two parts."""
    module = module_of(ONE_OP.replace("ROWS", str(rows)), {"x": 2}, a=P("x", None))
    found = sites(module)
    origins = reach(found, "x", 2, never).table
    link = Link("x", 2, 1e9, 1e-6, nests=nests)
    labels = labels_of(of_op(found, "tanh"), link, origins, never, lambda site, factor: split)
    assert any(label.split_results for label in labels) == is_listed
