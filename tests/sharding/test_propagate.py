"""Propagation: decisions on small models, and invariants: annotations are kept, and node order has no effect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshgen.errors import ShardingError
from meshgen.ir.graph import Annotation, Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.propagate import propagate
from meshgen.spec import P, Sharding, fit
from meshgen.testing.oracle import check

MATMUL = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ()}


def t(*shape: int) -> TensorType:
    return TensorType(shape, "f32")


def required(*dims: object, rank: int = 2, **partial: str) -> Annotation:
    return Annotation(fit(P(*dims, partial=partial or None), rank))  # type: ignore[arg-type]


def mlp(mesh: dict[str, int | None], specs: list[Annotation | None], out: Annotation | None, scale: int = 1) -> Module:
    """Return tanh(x @ w1) @ w2 with 512 rows, E = 256, F = 1024, all multiplied by `scale`."""
    rows, embed, ffn = 512 * scale, 256 * scale, 1024 * scale
    graph = Graph("main", [Value(t(rows, embed), "x"), Value(t(embed, ffn), "w1"), Value(t(ffn, embed), "w2")])
    hidden = graph.add("dot_general", graph.inputs[:2], [t(rows, ffn)], MATMUL, name="h").result
    active = graph.add("tanh", [hidden], [t(rows, ffn)], name="a").result
    graph.outputs = [graph.add("dot_general", [active, graph.inputs[2]], [t(rows, embed)], MATMUL, name="y").result]
    return Module(make_mesh(mesh), graph, in_annotations=specs, out_annotations=[out])


def results(module: Module) -> list[str]:
    return [str(node.sharding.results[0]) for node in module.graph.nodes if node.sharding]


def test_megatron_sharding_follows_from_one_annotation() -> None:
    done = propagate(mlp({"tp": 4}, [required(), required(None, "tp"), None], required()))
    assert results(done) == ["[{}, {tp}]", "[{}, {tp}]", "[{}, {}] partial sum(tp)"]
    assert str(done.in_shardings[2]) == "[{tp}, {}]", "w2 is free: it follows the hidden dim"


def test_data_parallel_shards_only_batch() -> None:
    done = propagate(mlp({"dp": 8}, [required("dp"), required(), required()], required("dp")))
    assert results(done) == ["[{dp}, {}]"] * 3
    assert [str(s) for s in done.in_shardings] == ["[{dp}, {}]", "[{}, {}]", "[{}, {}]"]


def test_2d_weight_stationary_sharding_does_not_move_weights() -> None:
    specs = [required(None, ("x", "y", "z")), required("x", ("y", "z")), required(("y", "z"), "x")]
    done = propagate(mlp({"x": 2, "y": 2, "z": 2}, list(specs), required(None, ("x", "y", "z")), scale=4))
    for node, weight in ((done.graph.nodes[0], specs[1]), (done.graph.nodes[2], specs[2])):
        assert node.sharding and node.sharding.operands[1] == weight.sharding


def test_add_of_partial_sums_stays_partial() -> None:
    graph = Graph("main", [Value(t(64, 512), n) for n in "ac"] + [Value(t(512, 64), n) for n in "bd"])
    a, c, b, d = graph.inputs
    sums = [graph.add("dot_general", [x, y], [t(64, 64)], MATMUL).result for x, y in ((a, b), (c, d))]
    graph.outputs = [graph.add("add", sums, [t(64, 64)]).result]
    columns, rows = required(None, "x"), required("x")
    done = propagate(
        Module(make_mesh({"x": 8}), graph, in_annotations=[columns, columns, rows, rows], out_annotations=[required()])
    )
    assert results(done) == ["[{}, {}] partial sum(x)"] * 3


def test_program_without_annotations_is_replicated() -> None:
    done = propagate(mlp({"x": 4}, [None, None, None], None))
    assert results(done) == ["[{}, {}]"] * 3


def test_sharding_option_determines_factors() -> None:
    module = mlp({"x": 2}, [required(None, "x"), None, None], required(None, "x"))
    module.graph.nodes[2].option = ((), (), ("x",))
    done = propagate(module)
    last = done.graph.nodes[2].sharding
    assert last and last.option == ((), (), ("x",)) and last.results[0].partial == (("x", "sum"),)


def test_axis_order_of_annotation_is_propagated() -> None:
    done = propagate(mlp({"a": 2, "b": 2}, [required(("b", "a")), None, None], None))
    assert results(done) == ["[{b,a}, {}]"] * 3


def test_sub_axes_propagate_independently() -> None:
    done = propagate(mlp({"x": 8}, [required("x:(1)2"), required(None, "x:(2)4"), None], None))
    assert results(done)[0] == "[{x:(1)2}, {x:(2)4}]"


def random_module(rng: np.random.Generator) -> Module:
    """Return a random graph of square matrices with random annotations on inputs, outputs and inner values."""
    graph = Graph("main", [Value(t(24, 24), f"i{i}") for i in range(3)])
    values = list(graph.inputs)
    for _ in range(int(rng.integers(3, 9))):
        pick = [values[int(i)] for i in rng.integers(0, len(values), 2)]
        op = str(rng.choice(["add", "dot_general", "tanh", "transpose", "annotate"]))
        attrs = {
            "dot_general": MATMUL,
            "transpose": {"perm": (1, 0)},
            "annotate": {"sharding": random_sharding(rng), "required": True, "as_result": True, "open_dims": ()},
        }
        values.append(
            graph.add(
                op, pick[: 1 if op in ("tanh", "transpose", "annotate") else 2], [t(24, 24)], attrs.get(op)
            ).result
        )
    graph.outputs = [values[-1]]
    annotations = [Annotation(random_sharding(rng)) if rng.random() < 0.6 else None for _ in range(3)]
    return Module(
        make_mesh({"x": 2, "y": 3}),
        graph,
        in_annotations=annotations,
        out_annotations=[Annotation(random_sharding(rng))],
    )


def random_sharding(rng: np.random.Generator) -> Sharding:
    dims: list[list[str]] = [[], []]
    for axis in ("x", "y"):
        if (dim := int(rng.integers(0, 3))) < 2:
            dims[dim].append(axis)
    return Sharding(tuple(tuple(d) for d in dims))


def reordered(module: Module, rng: np.random.Generator) -> Module:
    """Return the module with its nodes in another valid order."""
    remaining, defined, nodes = list(module.graph.nodes), set(map(id, module.graph.inputs)), list[Node]()
    while remaining:
        ready = [n for n in remaining if all(id(v) in defined for v in n.operands)]
        node = ready[int(rng.integers(len(ready)))]
        remaining.remove(node)
        nodes.append(node)
        defined |= {id(v) for v in node.results}
    return replace(module, graph=Graph(module.graph.name, module.graph.inputs, nodes, module.graph.outputs))


@pytest.mark.parametrize("seed", range(25))
def test_required_annotations_are_kept(seed: int) -> None:
    module = random_module(np.random.default_rng(seed))
    done = propagate(module)
    for annotation, got in zip(module.in_annotations, done.in_shardings, strict=True):
        assert annotation is None or annotation.sharding == got
    assert [w and w.sharding for w in module.out_annotations] == done.out_shardings
    for node in done.graph.nodes:
        assert node.sharding
        assert node.op != "annotate" or node.sharding.results[0] == node.attrs.sharding


@pytest.mark.parametrize("seed", range(15))
def test_shardings_do_not_depend_on_node_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    module = random_module(rng)
    first, second = propagate(module), propagate(reordered(module, rng))
    by_value = {id(n.results[0]): n.sharding for n in first.graph.nodes}
    # common subexpression elimination keeps the first of equal nodes, so the kept nodes may differ
    assert len(first.graph.nodes) == len(second.graph.nodes)
    assert all(by_value.get(id(n.results[0]), n.sharding) == n.sharding for n in second.graph.nodes)


def test_all_annotation_faults_are_reported_at_once() -> None:
    wrong = [required("q"), required("x", "x"), Annotation(P("x", None, None))]
    with pytest.raises(ShardingError) as caught:
        propagate(mlp({"x": 4}, list(wrong), None))
    assert [d.code for d in caught.value.diagnostics] == ["MG0202", "MG0203", "MG0204"]


def test_sharding_that_depends_on_dropped_sub_axis_is_dropped() -> None:
    """Check 30 = 3 x 10 rows. Sharding the 10 in halves is valid only while the other sub-axis of x shards the 3."""
    text = """shard.grid @mesh(shape = 6) {axis_names = ["x"]}
func.func public @main(%cut_v0: tensor<30x13xi1>) -> tensor<3x2x65xi1> {
  %sharding = shard.sharding @mesh split_axes = [[0], []] {axes = [["x:(1)2"], []]} : !shard.sharding
  %0 = shard.shard %cut_v0 to %sharding {required = false, open_dims = array<i1: false, false>} : tensor<30x13xi1>
  %v2 = stablehlo.reshape %0 : (tensor<30x13xi1>) -> tensor<3x130xi1>
  %v5 = stablehlo.reshape %v2 : (tensor<3x130xi1>) -> tensor<3x2x65xi1>
  %sharding_0 = shard.sharding @mesh split_axes = [[0], [], []] : !shard.sharding
  %1 = shard.shard %v5 to %sharding_0 {open_dims = array<i1: false, false, true>} : tensor<3x2x65xi1>
  func.return %1 : tensor<3x2x65xi1>
}
"""
    module = parse_text(text)
    assert check(
        module, pipeline=lambda entered: run_stages(entered, Options("cpu"), Timing(), "partition")["partition"]
    ).ok


@pytest.mark.parametrize("axes", ["x, y", "y, x"])
@pytest.mark.parametrize(("size", "start", "limit"), [(8, 6, 8), (3, 1, 3), (16, 3, 11)])
def test_sharding_option_over_several_axes_shards_slice(axes: str, size: int, start: int, limit: int) -> None:
    """Check that both axes shard the rows of the slice: if they were partial along one axis, the other could not shard
    them.
    """
    rows = limit - start
    option = ", ".join(f'"{axis}"' for axis in axes.split(", "))
    module = parse_text(f"""
shard.grid @mesh(shape = 4x2) {{axis_names = ["x", "y"]}}
func.func @main(%a: tensor<{size}xf32>) -> tensor<{rows}xf32> {{
  %0 = stablehlo.slice %a [{start}:{limit}] {{sharding = [[{option}]]}} : (tensor<{size}xf32>) -> tensor<{rows}xf32>
  return %0 : tensor<{rows}xf32>
}}""")
    (node,) = propagate(module).graph.nodes
    assert node.sharding and node.sharding.option == (tuple(axes.split(", ")),)
