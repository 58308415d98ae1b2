"""Tests of the `row-sums-to-runs` pass: column sums are split in two stages only if a kernel reduces the rows anyway."""

from __future__ import annotations

from meshgen.codegen.passes.row_sums_to_runs import row_sums_to_runs
from tests.codegen.bodies import Body
from tests.codegen.norms import Norm
from tests.codegen.passes.after import after


def test_column_sums_without_row_reductions_are_unchanged() -> None:
    b = Body("f32[1024,256]")
    graph = b.done(b.reduce("add", b.op("tanh", b.inputs[0]), 0))
    assert after(row_sums_to_runs, graph) is graph, "there is no row reduction"
    b = Body("f32[1024,256]", "f32[1024,256]")
    x, y = b.inputs
    graph = b.done(b.reduce("add", x, 0), b.reduce("add", y, 1))
    assert after(row_sums_to_runs, graph) is graph, "the row reduction reads another value"
    b = Body("f32[1024,256]")
    x = b.inputs[0]
    first = b.reduce("add", x, 0)
    graph = b.done(b.reduce("add", b.op("multiply", x, b.wide(first, x, (1,))), 1))
    assert after(row_sums_to_runs, graph) is graph, "the row reduction depends on the column sum"


def test_column_sums_of_few_rows_are_unchanged() -> None:
    """Check 96 rows. The partial sums of a two-stage reduction would take as many bytes as the rows themselves."""
    graph = Norm((96, 4096), "f32").gradients(True)
    assert after(row_sums_to_runs, graph) is graph
