"""A value keeps its id across stages, independent of its name and location."""

from __future__ import annotations

from meshgen import api
from meshgen.ir.graph import Value
from meshgen.ir.regions import all_nodes
from meshgen.mlir.text import parse_text
from meshgen.reports.explain import explain_collective
from tests.programs import mlp
from tests.reports.explained import LOOP


def test_materialized_values_keep_ids() -> None:
    stages = api.plan(parse_text(LOOP), target="cpu").stages
    planned = [value for node in all_nodes(stages["propagate"].graph) for value in node.results]
    materialized = {value.id: value for node in all_nodes(stages["materialize"].graph) for value in node.results}
    matched_values = [(value, materialized[value.id]) for value in planned if value.id in materialized]
    assert len(matched_values) >= len(planned) / 2 and len({value.id for value in planned}) == len(planned)
    assert all((new.name, new.type, new.loc) == (old.name, old.type, old.loc) for old, new in matched_values)
    assert {value.id for value in stages["partition"].graph.inputs} <= {v.id for v in stages["propagate"].graph.inputs}


SUM = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %a = stablehlo.exponential %w : tensor<8x8xf32>
  %b = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = stablehlo.tanh %b : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
"""


def test_values_with_same_name_and_location_are_distinguished() -> None:
    """The chains of a collective belong to the value that it moves, even if all values share a name and a location."""
    named, same = parse_text(SUM), parse_text(SUM)
    for node in all_nodes(same.graph):
        for value in node.results:
            value.name, value.loc = "", named.graph.nodes[0].result.loc
    records = [explain_collective(api.plan(module, target="cpu"), 0)[0] for module in (named, same)]
    chains = [[(chain["axis"], chain["state"]) for chain in record["chains"]] for record in records]
    assert chains[0] == chains[1] and ("y", "is partial (sum)") in chains[0]


def test_value_ids_are_unique() -> None:
    kind = parse_text(mlp()).graph.inputs[0].type
    assert len({Value(kind).id for _ in range(10)}) == 10
