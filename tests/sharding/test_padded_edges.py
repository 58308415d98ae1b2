"""Convolutions of tensors padded with their own rows (modes wrap, edge, reflect) move only a halo."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshgen.ir.graph import Annotation, Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.types.inference import verify_graph
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.sharding.partitioners import windowed
from meshgen.sharding.rewrites.concatenate_sink import concatenate_sink
from meshgen.sharding.rewrites.fold_identities import fold_identities
from meshgen.spec import P
from meshgen.testing.oracle import check
from meshgen.testing.random_graphs import random_arguments, random_program

MODES = ("wrap", "edge", "reflect")


def _slice(graph: Graph, x: Value, dim: int, start: int, limit: int) -> Value:
    sizes = x.type.sizes
    starts = tuple(start if d == dim else 0 for d in range(len(sizes)))
    limits = tuple(limit if d == dim else n for d, n in enumerate(sizes))
    kind = x.type.with_shape(b - a for a, b in zip(starts, limits, strict=True))
    return graph.add("slice", [x], [kind], {"start": starts, "limit": limits, "stride": (1,) * len(sizes)}).result


def _concatenate(graph: Graph, parts: list[Value], dim: int) -> Value:
    rows = sum(part.type.sizes[dim] for part in parts)
    kind = parts[0].type.with_shape(rows if d == dim else n for d, n in enumerate(parts[0].type.sizes))
    return graph.add("concatenate", parts, [kind], {"dim": dim}).result


def _end(graph: Graph, x: Value, dim: int, mode: str, width: int, *, is_low: bool) -> Value:
    """Return the rows that `jnp.pad` concatenates to one end."""
    size = x.type.sizes[dim]
    if mode == "wrap":
        return _slice(graph, x, dim, *((size - width, size) if is_low else (0, width)))
    if mode == "reflect":
        rows = _slice(graph, x, dim, *((1, 1 + width) if is_low else (size - 1 - width, size - 1)))
        return graph.add("reverse", [rows], [rows.type], {"dims": (dim,)}).result
    row = _slice(graph, x, dim, *((0, 1) if is_low else (size - 1, size)))
    sizes = list(row.type.sizes)
    spread = [*sizes[: dim + 1], width, *sizes[dim + 1 :]]
    dims = tuple(d if d <= dim else d + 1 for d in range(len(sizes)))
    more = graph.add("broadcast_in_dim", [row], [row.type.with_shape(spread)], {"dims": dims}).result
    sizes[dim] = width
    return graph.add("reshape", [more], [row.type.with_shape(sizes)], {}).result


def padded(graph: Graph, x: Value, mode: str, width: int) -> Value:
    for dim in (1, 2):
        low, high = (_end(graph, x, dim, mode, width, is_low=is_low) for is_low in (True, False))
        x = _concatenate(graph, [low, x, high], dim)
    return x


def program(mode: str, rows: int, width: int, stride: int, mesh: dict[str, int]) -> Module:
    side = 2 * width + 1
    kinds = TensorType((2, rows, 8, 3), "f32"), TensorType((side, side, 3, 4), "f32")
    graph = Graph("main", [Value(kind, name) for kind, name in zip(kinds, "xw", strict=True)])
    image = padded(graph, graph.inputs[0], mode, width) if mode else graph.inputs[0]
    padding = (0, 0) if mode else (width, width)
    attrs = {
        "input_batch": 0, "input_feature": 3, "input_spatial": (1, 2),
        "kernel_input_feature": 2, "kernel_output_feature": 3, "kernel_spatial": (0, 1),
        "output_batch": 0, "output_feature": 3, "output_spatial": (1, 2),
        "window_strides": (stride, stride), "low": padding, "high": padding, "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1), "window_reversal": (False, False), "feature_group_count": 1,
        "batch_group_count": 1, "precision": (),
    }  # fmt: skip
    kind = TensorType((2, -(-rows // stride), -(-8 // stride), 4), "f32")
    graph.outputs = [graph.add("convolution", [image, graph.inputs[1]], [kind], attrs).result]
    assert not verify_graph(graph)
    spec = P(None, *mesh, *[None] * (3 - len(mesh)))
    return Module(
        make_mesh(mesh),
        graph,
        in_annotations=[Annotation(spec), Annotation(P())],
        out_annotations=[Annotation(spec)],
    )


def partitioned(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "partition")["partition"]


@pytest.mark.parametrize("mode", MODES)
def test_padded_convolution_moves_only_halo(mode: str) -> None:
    module = program(mode, 32, 1, 1, {"x": 4})
    row = 2 * (8 + 2) * 3 * 4
    assert check(module, pipeline=partitioned).ok
    assert 0 < analyze(partitioned(module)).ring_bytes <= 2 * row


CASES = [
    *itertools.product(MODES, (9, 32), (1, 2), (1, 2), [{"x": 4}]),  # uneven tiles, wide ends, strides
    *itertools.product(MODES, (5,), (2,), (1,), [{"x": 4}, {"x": 2, "y": 2}]),  # ends wider than a tile
]


@pytest.mark.parametrize("mode, rows, width, stride, mesh", CASES, ids=str)
def test_padded_convolution_of_any_width_stride_and_tile_is_correct(
    mode: str, rows: int, width: int, stride: int, mesh: dict[str, int]
) -> None:
    assert check(program(mode, rows, width, stride, mesh), pipeline=partitioned).ok


def test_convolution_image_is_resharded_instead_of_gathered() -> None:
    """The image is sharded by batch and needed by rows: devices exchange half a tile, and one halo row of each image."""
    module = program("", 32, 1, 1, {"x": 2})
    module.in_annotations[0] = Annotation(P("x"))
    row = 8 * 3 * 4
    assert check(module, pipeline=partitioned).ok
    assert 0 < analyze(partitioned(module)).ring_bytes <= 16 * row + 2 * row


def test_empty_concatenation_operands_are_removed() -> None:
    """`jnp.pad` concatenates empty slices for unpadded dims. If they stayed, all devices would need the first image."""
    graph = Graph("main", [Value(TensorType((8, 4), "f32"), "x")])
    (x,) = graph.inputs
    end = _slice(graph, _slice(graph, x, 0, 0, 1), 0, 0, 0)
    graph.outputs = [graph.add("tanh", [_concatenate(graph, [end, x, end], 0)], [x.type]).result]
    folded = fold_identities.rewrite(graph)
    assert folded is not None and [node.op for node in folded.nodes] == ["tanh"]


def test_concatenate_sink_and_identity_folding_keep_results() -> None:
    modules = [(program(mode, 9, width, 1, {"x": 2}), 0) for mode in MODES for width in (1, 2)]
    count = {concatenate_sink: 0, fold_identities: 0}
    for module, seed in [*modules, *((random_program(seed), seed) for seed in range(200))]:
        if module.parts or any(node.op == "manual" for node in module.graph.nodes):
            continue
        arguments = random_arguments(module, seed)
        for rewrite in count:
            rewritten = rewrite.rewrite(module.graph)
            if rewritten is None:
                continue
            count[rewrite] += 1
            assert not verify_graph(rewritten), seed
            for left, right in zip(evaluate(module.graph, arguments), evaluate(rewritten, arguments), strict=True):
                np.testing.assert_allclose(
                    np.asarray(left).astype(complex), np.asarray(right).astype(complex), rtol=1e-5, atol=1e-5
                )
    assert min(count.values()) >= 5


def test_concatenation_with_several_users_is_kept() -> None:
    """Check a concatenation that is an output and has two slices: of its second part, and across both parts."""
    graph = Graph("main", [Value(TensorType((4, 6), "f32"), name) for name in "ab"])
    concatenated = _concatenate(graph, list(graph.inputs), 0)
    inner, both = _slice(graph, concatenated, 0, 5, 7), _slice(graph, concatenated, 0, 3, 6)
    graph.outputs = [both, inner, concatenated]
    rewritten = concatenate_sink.rewrite(graph)
    assert rewritten is not None
    assert [node.op for node in rewritten.nodes] == ["slice", "concatenate", "slice"]
    assert rewritten.nodes[0].operands == [graph.inputs[1]]
    args = [np.arange(24, dtype=np.float32).reshape(4, 6) + n for n in (0, 100)]
    for left, right in zip(evaluate(graph, args), evaluate(rewritten, args), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("mode, rows, width", [*itertools.product(MODES, (9, 33), (1, 3))])
def test_fetch_from_operands_does_not_increase_bytes(
    mode: str, rows: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a padded tensor that is also an output, so its rows are available without a fetch."""
    module = program(mode, rows, width, 1, {"x": 4})
    (image, _) = module.graph.nodes[-1].operands
    module.graph.outputs.append(module.graph.add("tanh", [image], [image.type], {}).result)
    module.out_annotations *= 2
    moved_bytes = analyze(partitioned(module)).ring_bytes
    monkeypatch.setattr(windowed, "fetch_from_operands", lambda *_: None)
    assert moved_bytes <= analyze(partitioned(module)).ring_bytes
