"""The shardings that annotations reach along one mesh axis, and how shardings over other axes reduce bytes and work."""

from __future__ import annotations

import pytest

from meshgen.api import read
from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import Module, Value
from meshgen.sharding.propagate import solve
from meshgen.sharding.propagation.labels import labels_of
from meshgen.sharding.propagation.reach import picks_of, reach
from meshgen.sharding.propagation.sites import Site, sites_of
from meshgen.sharding.propagation.states import Link
from meshgen.sharding.propagation.unsplit_program import view_of
from meshgen.spec import P


def module_of(text: str, mesh: dict[str, int | None], **specs: object) -> Module:
    return read(text, mesh, in_specs=specs)[0]


def sites(module: Module) -> list[Site]:
    return sites_of(module, AxisParts.of(module.mesh, module.mesh.names))


def never(site: Site, factor: int) -> bool:
    return False


def site_of_op(all_sites: list[Site], op: str) -> Site:
    return next(site for site in all_sites if site.node.op == op)


SLICED = """func.func @main(%a: tensor<64x8xf32>) -> tensor<ROWSx8xf32> {
  %b = stablehlo.slice %a [8:END, 0:8] : (tensor<64x8xf32>) -> tensor<ROWSx8xf32>
  return %b : tensor<ROWSx8xf32>
}"""


@pytest.mark.parametrize(("rows", "is_partial"), [(1, True), (4, True), (5, False), (16, False)])
def test_slice_of_few_sharded_rows_can_stay_partial(rows: int, is_partial: bool) -> None:
    """A sum of 4 rows over 8 devices moves no more than gathering one padded row per device; a sum of 5 rows moves
    more.
    """
    module = module_of(SLICED.replace("ROWS", str(rows)).replace("END", str(8 + rows)), {"x": 8}, a=P("x", None))
    all_sites = sites(module)
    cut = site_of_op(all_sites, "slice")
    assert bool(picks_of(cut, 0, 0, 8)) == is_partial
    assert ("sum" in reach(all_sites, "x", 8, never).table[cut.node.result]) == is_partial


@pytest.mark.parametrize(("kind", "is_linear"), [("sum", True), ("max", False)])
def test_partial_value_propagates_through_linear_op(kind: str, is_linear: bool) -> None:
    text = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
      %b = stablehlo.negate %a : tensor<8xf32>
      return %b : tensor<8xf32>
    }"""
    all_sites = sites(module_of(text, {"x": 2}, a=P(None, partial={"x": kind})))
    assert (
        kind in reach(all_sites, "x", 2, never).table.get(site_of_op(all_sites, "negate").node.result, {})
    ) == is_linear


SUMMED = """func.func @main(%a: tensor<16x32xf32>, %w: tensor<32x64xf32>) -> tensor<16x64xf32> {
  %h = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  %t = stablehlo.tanh %h : tensor<16x64xf32>
  return %t : tensor<16x64xf32>
}"""


def test_axis_view_scales_bytes_and_work_by_other_axes() -> None:
    """Check a dot whose rows are sharded over x in 2 tiles and whose contracted dim is sharded over y in 4 tiles.

    The partial sum is reduced before tanh.
    """
    module = module_of(SUMMED, {"x": 2, "y": 4}, a=P("x", "y"), w=P("y", None))
    solved = solve(module)
    view = view_of(solved.axes.whole, solved.labels, solved.module.mesh)
    site_index = {site.node.op: n for n, site in enumerate(solved.sites)}
    dot, tanh = (site_of_op(solved.sites, op) for op in ("dot_general", "tanh"))

    def shrink_factor(value: Value) -> float:
        return value.type.nbytes / view.nbytes(value)

    assert [shrink_factor(value) for value in (*dot.node.operands, dot.node.result)] == [8, 4, 2]
    used_bytes = [view.used_bytes((site_index["dot_general"], i)) for i in (0, 1)] + [
        view.used_bytes((site_index["tanh"], 0))
    ]
    assert used_bytes == [16 * 32 * 4 / 8, 32 * 64 * 4 / 4, 16 * 64 * 4 / 2]
    assert [site.seconds / view.work(site) for site in (dot, tanh)] == pytest.approx([8, 2])
    assert view.reduced == {(site_index["tanh"], 0): 4}
    assert view.moved == {(site_index["tanh"], 0)}


@pytest.mark.parametrize(("shape", "dim"), [("8x12x24", 2), ("8x24x12", 1), ("8x26x12", 2), ("8x26x14", None)])
def test_sort_dim_is_replaced_by_largest_even_dim(shape: str, dim: int | None) -> None:  # fmt: skip
    text = f"""func.func @main(%a: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
      %b = "stablehlo.sort"(%a) <{{dimension = 0 : i64, is_stable = true}}> ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }}) : (tensor<{shape}xf32>) -> tensor<{shape}xf32>
      return %b : tensor<{shape}xf32>
    }}"""
    all_sites = sites(module_of(text, {"x": 4}, a=P("x", None, None)))
    reached = reach(all_sites, "x", 4, never).table.get(site_of_op(all_sites, "sort").node.result, {})
    assert list(reached) == ([] if dim is None else [dim])


ONE_OP = "func.func @main(%a: tensor<ROWSx8xf32>) -> tensor<ROWSx8xf32> {\n  %b = stablehlo.tanh %a : tensor<ROWSx8xf32>\n  return %b : tensor<ROWSx8xf32>\n}"


@pytest.mark.parametrize(
    ("rows", "split", "nests", "is_listed"),
    [
        (24, 4, True, True), (24, 4, False, True), (24, 0, False, False), (12, 4, True, False), (12, 4, False, True),
        (12, 1, True, True), (13, 1, True, True), (13, 1, False, True),
    ],
)  # fmt: skip
def test_axis_shards_rows_if_tiles_are_even_or_need_not_nest(
    rows: int, split: int, nests: bool, is_listed: bool
) -> None:
    """Check an axis of two parts. Other axes shard the rows into `split` parts; 0 means that the rows are partial."""
    module = module_of(ONE_OP.replace("ROWS", str(rows)), {"x": 2}, a=P("x", None))
    all_sites = sites(module)
    origins = reach(all_sites, "x", 2, never).table
    link = Link("x", 2, 1e9, 1e-6, nests=nests)
    labels = labels_of(site_of_op(all_sites, "tanh"), link, origins, never, lambda site, factor: split)
    assert any(label.split_results for label in labels) == is_listed
