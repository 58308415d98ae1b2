"""Materialise: which collectives stand where and why, and law 1 on random programs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meshgen.errors import Location, ProgramError
from meshgen.ir.graph import Annotation, Graph, Module, Node, NodeSharding, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.simulate import simulate
from meshgen.sharding.copies import Names, make_order
from meshgen.sharding.materialize import materialize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.spec import P, Sharding, fit

Array = np.ndarray[Any, Any]

MATMUL = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ()}
XY = make_mesh({"x": 2, "y": 4})
T = TensorType((64, 64), "f32")
ROWS, COLUMNS, WHOLE = fit(P("x"), 2), fit(P(None, "x"), 2), fit(P(), 2)


def chain(*uses: Sharding, produced: Sharding = ROWS, why: tuple[str, ...] = ()) -> Module:
    """An input in `produced` with one tanh per use, each needing and giving another sharding."""
    graph = Graph("main", [Value(T, "v")])
    for number, lies in enumerate(uses):
        node = graph.add("tanh", graph.inputs, [T], name=f"t{number}", loc=Location("somewhere/model.py", 10 + number))
        node.sharding = NodeSharding((lies,), (lies,), (), why)
    graph.outputs = [node.result for node in graph.nodes]
    return Module(XY, graph, "propagate", in_shardings=[produced], out_shardings=list(uses))


def ops(module: Module) -> list[str]:
    return [node.op for node in module.graph.nodes]


def test_a_use_that_fits_gets_the_value_itself() -> None:
    done = materialize(chain(ROWS))
    assert ops(done) == ["tanh"]
    assert [value.sharding for value in done.graph.values()] == [ROWS, ROWS]


def test_a_copy_is_shared_and_stands_before_its_first_use() -> None:
    done = materialize(chain(ROWS, WHOLE, WHOLE))
    assert ops(done) == ["tanh", "all_gather", "tanh", "tanh"]
    gathered = done.graph.nodes[1]
    assert gathered.result.sharding == WHOLE and gathered.result.name == "v_gathered"
    assert [node.operands for node in done.graph.nodes[2:]] == [[gathered.result]] * 2


def test_columns_are_sliced_from_a_copy_that_is_gathered_anyway() -> None:
    assert ops(materialize(chain(COLUMNS, WHOLE))) == ["all_gather", "all_slice", "tanh", "tanh"]
    assert ops(materialize(chain(COLUMNS))) == ["all_to_all", "tanh"]


def test_outputs_are_delivered_as_asked() -> None:
    module = chain(ROWS)
    done = materialize(replace(module, out_shardings=[COLUMNS]))
    assert ops(done) == ["tanh", "all_to_all"]
    assert done.graph.outputs[0].sharding == COLUMNS


def test_every_collective_tells_its_edge_and_what_propagation_noted() -> None:
    done = materialize(chain(WHOLE, why=("x splits loop m (64)", "y is used")))
    (gather,) = [node for node in done.graph.nodes if node.op == "all_gather"]
    assert gather.notes.why == (
        "input 'v' gives [{x}, {}], tanh 't0' (model.py:10) needs [{}, {}]; tanh 't0': x splits loop m (64)"
    )
    assert gather.loc == Location("somewhere/model.py", 10)


def test_annotations_leave_and_what_they_ask_stays() -> None:
    graph = Graph("main", [Value(T, "v")])
    for lies in (COLUMNS, COLUMNS, WHOLE):
        before = graph.nodes[-1].result if graph.nodes else graph.inputs[0]
        attrs = {"sharding": lies, "required": True, "as_result": True, "open_dims": ()}
        node = graph.add("annotate", [before], [T], attrs)
        produced = graph.nodes[-2].sharding.results[0] if len(graph.nodes) > 1 and graph.nodes[-2].sharding else ROWS
        node.sharding = NodeSharding((produced,), (lies,))
    graph.outputs = [graph.nodes[-1].result]
    module = Module(XY, graph, "propagate", in_shardings=[ROWS], out_shardings=[WHOLE])
    assert ops(materialize(module)) == ["all_to_all", "all_gather"]


def test_a_copy_for_a_loop_is_made_before_it() -> None:
    graph = Graph("main", [Value(T, "w"), Value(T, "v")])
    w, v = graph.inputs
    condition, body = Graph("condition", [Value(T)]), Graph("body", [Value(T, "c")])
    condition.outputs = [condition.add("constant", [], [TensorType((), "i1")], {"value": np.array(False)}).result]
    condition.nodes[0].sharding = NodeSharding((), (Sharding(()),))
    add = body.add("add", [body.inputs[0], w], [T])
    add.sharding = NodeSharding((WHOLE, WHOLE), (WHOLE,))
    body.outputs = [add.result]
    loop = graph.add("while", [v], [T])
    loop.regions, loop.sharding = (condition, body), NodeSharding((WHOLE,), (WHOLE,))
    graph.outputs = [loop.result]
    done = materialize(Module(XY, graph, "propagate", in_shardings=[ROWS, WHOLE], out_shardings=[WHOLE]))
    assert ops(done) == ["all_gather", "while"]
    inner = done.graph.nodes[1].regions[1]
    assert inner.nodes[0].operands[1] is done.graph.nodes[0].result
    assert inner.inputs[0].sharding == WHOLE


def test_the_input_module_is_left_as_it_was() -> None:
    module = chain(WHOLE, COLUMNS)
    before = [(node, list(node.operands), list(node.results)) for node in module.graph.nodes]
    materialize(module)
    assert [(node, list(node.operands), list(node.results)) for node in module.graph.nodes] == before
    assert all(value.sharding is None for value in module.graph.values())


def test_a_program_that_was_not_propagated_is_refused() -> None:
    graph = Graph("main", [Value(T, "v")])
    graph.outputs = [graph.add("tanh", graph.inputs, [T], loc=Location("m.py", 3)).result]
    with pytest.raises(ProgramError) as caught:
        materialize(Module(XY, graph))
    assert [d.code for d in caught.value.diagnostics] == ["MG0104", "MG0104"]
    assert caught.value.diagnostics[0].loc == Location("m.py", 3)


def test_the_cheapest_order_and_the_greedy_one_for_many_targets() -> None:
    prices = {(1, 2): 5, (1, 3): 7, (3, 2): 0, (2, 3): 7, (1, 4): 9, (3, 4): 1, (1, 5): 2, (4, 5): 9}
    places = {n: Sharding(((str(n),),)) for n in range(1, 6)}

    def cost(source: Sharding, target: Sharding) -> tuple[int, int, int, int]:
        return prices.get((int(source.dims[0][0]), int(target.dims[0][0])), 99), 0, 0, 0

    def order(*targets: int) -> dict[int, int]:
        found = make_order(places[1], [places[n] for n in targets], cost)
        return {int(t.dims[0][0]): int(s.dims[0][0]) for t, s in found.items()}

    assert order(2, 3) == {2: 3, 3: 1}
    assert order(2, 3, 4) == {2: 3, 3: 1, 4: 3}
    assert order(2, 3, 4, 5) == {5: 1, 2: 1, 3: 1, 4: 3}, "greedy: 2 is made before 3 is there"


def test_new_names_are_new() -> None:
    names = Names(["v", "v_gathered"])
    assert [names.fresh("v", "gathered"), names.fresh("v", "gathered")] == ["v_gathered_1", "v_gathered_2"]
    assert names.fresh("", "gathered") == ""


# Law 1 on random programs: propagate, materialise, (optimise,) partition, run on all ranks ------------------------


def random_sharding(rng: np.random.Generator, axes: tuple[str, ...]) -> Sharding:
    dims: list[list[str]] = [[], []]
    for axis in rng.permutation(axes):
        if (place := int(rng.integers(0, 3))) < 2:
            dims[place].append(str(axis))
    return Sharding(tuple(map(tuple, dims)))


def random_program(rng: np.random.Generator, size: int) -> Module:
    """Element-wise ops, dots and transposes of square matrices, with random annotations everywhere."""
    kind, axes = TensorType((size, size), "f32"), ("x", "y")
    graph = Graph("main", [Value(kind, f"i{n}") for n in range(3)])
    values = list(graph.inputs)
    for _ in range(int(rng.integers(3, 10))):
        pick = [values[int(i)] for i in rng.integers(0, len(values), 2)]
        op = str(rng.choice(["add", "dot_general", "negate", "transpose", "annotate", "maximum"]))
        wish = {"sharding": random_sharding(rng, axes), "required": True, "as_result": True, "open_dims": ()}
        attrs = {"dot_general": MATMUL, "transpose": {"perm": (1, 0)}, "annotate": wish}
        operands = pick[: 1 if op in ("negate", "transpose", "annotate") else 2]
        values.append(graph.add(op, operands, [kind], attrs.get(op)).result)
    graph.outputs = values[-2:]
    wishes = [Annotation(random_sharding(rng, axes)) if rng.random() < 0.6 else None for _ in range(5)]
    mesh = make_mesh({"x": 2, "y": 3})
    return Module(mesh, graph, in_annotations=wishes[:3], out_annotations=wishes[3:])


def without_annotations(graph: Graph) -> Graph:
    same: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = [same.get(v, v) for v in node.operands]
        if node.op == "annotate":
            same[node.result] = operands[0]
        else:
            nodes.append(replace(node, operands=operands))
    return Graph(graph.name, graph.inputs, nodes, [same.get(v, v) for v in graph.outputs])


def exact_numbers(rng: np.random.Generator, graph: Graph, size: int) -> tuple[list[Array], list[Array]]:
    """Arguments, and the results on one device: with more and more zeros, until all sums are exact in f32."""
    plain = without_annotations(graph)
    args = [rng.integers(-1, 2, (size, size)).astype(np.float32) for _ in range(3)]
    wanted = evaluate(plain, args)
    while max(np.abs(x).max() for x in wanted) > 2**22:
        args = [arg * rng.integers(0, 2, arg.shape).astype(np.float32) for arg in args]
        wanted = evaluate(plain, args)
    return args, wanted


@pytest.mark.parametrize("size", [12, 7, 2])
@pytest.mark.parametrize("seed", range(12))
def test_all_ranks_together_compute_what_one_device_does(seed: int, size: int) -> None:
    rng = np.random.default_rng([seed, size])
    module = random_program(rng, size)
    args, wanted = exact_numbers(rng, module.graph, size)
    for got, want in zip(simulate(partition(materialize(propagate(module))), args), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_no_annotation_is_left_in_a_body_on_scalars() -> None:
    """JAX constrains what comparators compute, too: there is nothing to split."""
    text = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x6xf32> {
  %0 = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = sdy.sharding_constraint %p <@mesh, []> : tensor<f32>
    %2 = stablehlo.compare LT, %1, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}"""
    (sort,) = materialize(propagate(parse_text(text))).graph.nodes
    assert [node.op for node in sort.regions[0].nodes] == ["compare"]
    assert sort.regions[0].nodes[0].operands == sort.regions[0].inputs
