"""Materialize: which collectives are inserted, where and why, and correct results on random programs."""

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
    """Return a program at stage propagate: an input with sharding `produced`, and a tanh for each sharding in `uses`.

    Operand and result of each tanh have that sharding.
    """
    graph = Graph("main", [Value(T, "v")])
    for index, sharding in enumerate(uses):
        node = graph.add("tanh", graph.inputs, [T], name=f"t{index}", loc=Location("somewhere/model.py", 10 + index))
        node.sharding = NodeSharding((sharding,), (sharding,), (), why)
    graph.outputs = [node.result for node in graph.nodes]
    return Module(XY, graph, "propagate", in_shardings=[produced], out_shardings=list(uses))


def ops(module: Module) -> list[str]:
    return [node.op for node in module.graph.nodes]


def test_use_with_matching_sharding_gets_value_directly() -> None:
    done = materialize(chain(ROWS))
    assert ops(done) == ["tanh"]
    assert [value.sharding for value in done.graph.values()] == [ROWS, ROWS]


def test_resharded_copy_is_shared_and_precedes_first_use() -> None:
    done = materialize(chain(ROWS, WHOLE, WHOLE))
    assert ops(done) == ["tanh", "all_gather", "tanh", "tanh"]
    gathered = done.graph.nodes[1]
    assert gathered.result.sharding == WHOLE and gathered.result.name == "v_gathered"
    assert [node.operands for node in done.graph.nodes[2:]] == [[gathered.result]] * 2


def test_columns_are_sliced_from_already_gathered_copy() -> None:
    assert ops(materialize(chain(COLUMNS, WHOLE))) == ["all_gather", "all_slice", "tanh", "tanh"]
    assert ops(materialize(chain(COLUMNS))) == ["all_to_all", "tanh"]


def test_outputs_are_resharded_to_output_sharding() -> None:
    module = chain(ROWS)
    done = materialize(replace(module, out_shardings=[COLUMNS]))
    assert ops(done) == ["tanh", "all_to_all"]
    assert done.graph.outputs[0].sharding == COLUMNS


def test_collective_reason_has_edge_and_propagation_notes() -> None:
    done = materialize(chain(WHOLE, why=("x splits loop m (64)", "y is used")))
    (gather,) = [node for node in done.graph.nodes if node.op == "all_gather"]
    assert gather.notes.why == (
        "input 'v' gives [{x}, {}], tanh 't0' (model.py:10) needs [{}, {}]; tanh 't0': x splits loop m (64)"
    )
    assert gather.loc == Location("somewhere/model.py", 10)


def test_annotations_are_lowered_to_reshards() -> None:
    graph = Graph("main", [Value(T, "v")])
    for sharding in (COLUMNS, COLUMNS, WHOLE):
        before = graph.nodes[-1].result if graph.nodes else graph.inputs[0]
        attrs = {"sharding": sharding, "required": True, "as_result": True, "open_dims": ()}
        node = graph.add("annotate", [before], [T], attrs)
        produced = graph.nodes[-2].sharding.results[0] if len(graph.nodes) > 1 and graph.nodes[-2].sharding else ROWS
        node.sharding = NodeSharding((produced,), (sharding,))
    graph.outputs = [graph.nodes[-1].result]
    module = Module(XY, graph, "propagate", in_shardings=[ROWS], out_shardings=[WHOLE])
    assert ops(materialize(module)) == ["all_to_all", "all_gather"]


def test_copy_of_captured_value_is_hoisted_out_of_loop() -> None:
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


def test_materialize_does_not_modify_input_module() -> None:
    module = chain(WHOLE, COLUMNS)
    before = [(node, list(node.operands), list(node.results)) for node in module.graph.nodes]
    materialize(module)
    assert [(node, list(node.operands), list(node.results)) for node in module.graph.nodes] == before
    assert all(value.sharding is None for value in module.graph.values())


def test_materialize_rejects_program_before_propagation() -> None:
    graph = Graph("main", [Value(T, "v")])
    graph.outputs = [graph.add("tanh", graph.inputs, [T], loc=Location("m.py", 3)).result]
    with pytest.raises(ProgramError) as caught:
        materialize(Module(XY, graph))
    assert [d.code for d in caught.value.diagnostics] == ["MG0104", "MG0104"]
    assert caught.value.diagnostics[0].loc == Location("m.py", 3)


def test_copy_order_is_cheapest_or_greedy_for_many_targets() -> None:
    prices = {(1, 2): 5, (1, 3): 7, (3, 2): 0, (2, 3): 7, (1, 4): 9, (3, 4): 1, (1, 5): 2, (4, 5): 9}
    shardings = {n: Sharding(((str(n),),)) for n in range(1, 6)}

    def cost(source: Sharding, target: Sharding) -> tuple[int, int, int, int]:
        return prices.get((int(source.dims[0][0]), int(target.dims[0][0])), 99), 0, 0, 0

    def order(*targets: int) -> dict[int, int]:
        sources = make_order(shardings[1], [shardings[n] for n in targets], cost)
        return {int(t.dims[0][0]): int(s.dims[0][0]) for t, s in sources.items()}

    assert order(2, 3) == {2: 3, 3: 1}
    assert order(2, 3, 4) == {2: 3, 3: 1, 4: 3}
    assert order(2, 3, 4, 5) == {5: 1, 2: 1, 3: 1, 4: 3}, "greedy: 2 is made before 3 is there"


def test_fresh_names_are_unique() -> None:
    names = Names(["v", "v_gathered"])
    assert [names.fresh("v", "gathered"), names.fresh("v", "gathered")] == ["v_gathered_1", "v_gathered_2"]
    assert names.fresh("", "gathered") == ""


# Random programs: propagate, materialize and partition them, and run them on all ranks.


def random_sharding(rng: np.random.Generator, axes: tuple[str, ...]) -> Sharding:
    dims: list[list[str]] = [[], []]
    for axis in rng.permutation(axes):
        if (dim := int(rng.integers(0, 3))) < 2:
            dims[dim].append(str(axis))
    return Sharding(tuple(map(tuple, dims)))


def random_program(rng: np.random.Generator, size: int) -> Module:
    """Return element-wise ops, dots and transposes of square matrices, with random annotations on all values."""
    kind, axes = TensorType((size, size), "f32"), ("x", "y")
    graph = Graph("main", [Value(kind, f"i{n}") for n in range(3)])
    values = list(graph.inputs)
    for _ in range(int(rng.integers(3, 10))):
        pick = [values[int(i)] for i in rng.integers(0, len(values), 2)]
        op = str(rng.choice(["add", "dot_general", "negate", "transpose", "annotate", "maximum"]))
        annotate_attrs = {"sharding": random_sharding(rng, axes), "required": True, "as_result": True, "open_dims": ()}
        attrs = {"dot_general": MATMUL, "transpose": {"perm": (1, 0)}, "annotate": annotate_attrs}
        operands = pick[: 1 if op in ("negate", "transpose", "annotate") else 2]
        values.append(graph.add(op, operands, [kind], attrs.get(op)).result)
    graph.outputs = values[-2:]
    annotations = [Annotation(random_sharding(rng, axes)) if rng.random() < 0.6 else None for _ in range(5)]
    mesh = make_mesh({"x": 2, "y": 3})
    return Module(mesh, graph, in_annotations=annotations[:3], out_annotations=annotations[3:])


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
    """Return arguments and the results on one device, with enough zeros that all sums are exact in f32."""
    plain = without_annotations(graph)
    args = [rng.integers(-1, 2, (size, size)).astype(np.float32) for _ in range(3)]
    expected = evaluate(plain, args)
    while max(np.abs(x).max() for x in expected) > 2**22:
        args = [arg * rng.integers(0, 2, arg.shape).astype(np.float32) for arg in args]
        expected = evaluate(plain, args)
    return args, expected


@pytest.mark.parametrize("size", [12, 7, 2])
@pytest.mark.parametrize("seed", range(12))
def test_materialized_random_programs_equal_one_device(seed: int, size: int) -> None:
    rng = np.random.default_rng([seed, size])
    module = random_program(rng, size)
    args, expected = exact_numbers(rng, module.graph, size)
    for got, expected_result in zip(simulate(partition(materialize(propagate(module))), args), expected, strict=True):
        np.testing.assert_array_equal(got, expected_result)


def test_annotations_in_comparator_bodies_are_removed() -> None:
    """JAX also adds constraints inside comparators, but scalars cannot be sharded."""
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
