"""The warning about work that several devices duplicate."""

from __future__ import annotations

import pytest

from meshgen import api
from meshgen.errors import Diagnostic
from meshgen.reports.repeated import repeated_work

PROGRAM = """sdy.mesh @mesh = <["dp"=2, "tp"=4]>
func.func @main(%a: tensor<{n}x{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"dp"}}, {{}}]>}}, %b: tensor<{n}x{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{{axis}}}]>}}) -> tensor<{n}x{n}xf32> {{
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<{n}x{n}xf32>, tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
  %d = stablehlo.tanh %c : tensor<{n}x{n}xf32>
  return %d : tensor<{n}x{n}xf32>
}}"""


def planned(n: int = 4096, axis: str = "") -> api.Executable:
    return api.plan(PROGRAM.format(n=n, axis=axis), target="cpu")


def duplicate_work_warnings(executable: api.Executable) -> list[Diagnostic]:
    return [warning for warning in executable.warnings if warning.code == "MG0404"]


def test_warning_names_most_duplicated_op_with_line_and_axis() -> None:
    executable = planned()
    (warning,) = duplicate_work_warnings(executable)
    assert "75 % of the work" in warning.message and "dot_general %c" in warning.message
    assert "all 4 devices along tp" in warning.message and warning.loc is not None and warning.loc.line == 3
    dot, tanh = repeated_work(executable)
    assert dot.axes == ("tp",) and dot.wasted == 2 * 4096**3 / 2 * 3 / 4 and tanh.wasted == 4096**2 / 2 * 3 / 4
    assert executable.record()["warnings"][-1]["code"] == "MG0404"


@pytest.mark.parametrize(("n", "axis"), [(64, ""), (4096, '"tp"')], ids=["too small to matter", "split"])
def test_no_warning_for_small_or_sharded_work(n: int, axis: str) -> None:
    assert duplicate_work_warnings(planned(n, axis)) == []


def test_duplicated_ops_of_layers_are_merged() -> None:
    text = PROGRAM.format(n=4096, axis="").replace("tanh %c", "dot_general %c, %b, contracting_dims = [1] x [0]")
    text = text.replace("[0] : tensor<4096x4096xf32>", "[0] : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>")  # fmt: skip
    (duplicated,) = repeated_work(api.plan(text, target="cpu"))
    assert [node.results[0].name for node in duplicated.nodes] == ["c", "d"] and str(duplicated).startswith(
        "2 x dot_general %c"
    )
