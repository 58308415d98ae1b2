"""ONNX operators, and variants of them, that the node tests of the onnx package do not cover."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from meshgen.api import read  # noqa: E402
from meshgen.errors import MeshgenError  # noqa: E402
from meshgen.ops.evaluate.evaluator import evaluate  # noqa: E402
from tests.onnx_models import Builder, reference  # noqa: E402

RANDOM = np.random.default_rng(5)
MICROSOFT = "com.microsoft"
KINDS = {"float32": "f32", "int64": "i64", "int32": "i32", "bool": "i1", "uint8": "ui8"}


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float32)


def run(model: Any, *arrays: Any) -> list[Any]:
    module, signature = read(model, {"d": 2})
    names = [input_.name for input_ in model.graph.input]
    values = dict(zip(names, arrays, strict=True)) | dict(signature.weights)
    return evaluate(module.graph, [np.asarray(values[value.name]) for value in module.graph.inputs])


def single_operator_model(op: str, *arrays: Any, results: int = 1, domain: str = "", opset: int = 23, known: tuple[int, ...] = (), kind: str = "f32", **attributes: Any) -> Any:  # fmt: skip
    """Return a model of one operator, and the arrays for its inputs. Operands whose index is in `known` are
    initializers.
    """
    b = Builder()
    names = [
        "" if array is None else b.array(f"a{n}", array) if n in known else f"a{n}" for n, array in enumerate(arrays)
    ]
    inputs = [(name, array) for n, (name, array) in enumerate(zip(names, arrays, strict=True)) if array is not None and n not in known]  # fmt: skip
    outputs = b(op, *names, results=results, domain=domain, **attributes)
    outs = [outputs] if results == 1 else outputs
    model = b.model([(n, KINDS[array.dtype.name], array.shape) for n, array in inputs], [(out, kind) for out in outs], opset=opset)  # fmt: skip
    return model, [array for _, array in inputs]


def run_operator(op: str, *arrays: Any, **options: Any) -> list[Any]:
    model, inputs = single_operator_model(op, *arrays, **options)
    return run(model, *inputs)


def run_reference(op: str, *arrays: Any, **options: Any) -> list[Any]:
    model, inputs = single_operator_model(op, *arrays, **options)
    return reference(model, *inputs)


def assert_close(results: Any, expected: Any, tolerance: float = 2e-5) -> None:
    for actual, desired in zip(results, expected, strict=True):
        np.testing.assert_allclose(actual, desired, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_slice_bounds_are_clamped(step: int) -> None:
    """The expected rows follow the text of the standard. The reference of the onnx package returns none if a negative
    step starts before the first row.
    """
    x = f32(5, 2)
    ends = ((0, 5), (0, 5)) if step > 0 else ((0, 4), (-1, 4))
    for bounds in itertools.product((-99, -5, -2, 0, 3, 5, 99), repeat=2):
        start, stop = (np.clip(bound + 5 * (bound < 0), *end) for bound, end in zip(bounds, ends, strict=True))
        bound_operands = [np.array([value]) for value in (*bounds, 0, step)]
        assert_close(run_operator("Slice", x, *bound_operands, known=(1, 2, 3, 4)), [x[[*range(start, stop, step)]]])


# Operators of ONNX Runtime, compared with standard operators ----------------------------------------------------------


def test_runtime_gelu_variants_match_standard() -> None:
    x, bias = f32(3, 8), f32(8)
    assert_close(run_operator("Gelu", x, domain=MICROSOFT), run_reference("Gelu", x))
    assert_close(run_operator("BiasGelu", x, bias, domain=MICROSOFT), run_reference("Gelu", x + bias))
    assert_close(
        run_operator("FastGelu", x, bias, domain=MICROSOFT), run_reference("Gelu", x + bias, approximate="tanh")
    )
    assert_close(run_operator("QuickGelu", x, domain=MICROSOFT, alpha=1.5), [x / (1 + np.exp(-1.5 * x))])


def test_operator_body_infers_type_of_runtime_operator() -> None:
    x, target = f32(3, 8), np.array([1, 7, 0])
    b = Builder()
    loss = b("SoftmaxCrossEntropyLoss", b("Gelu", "x", domain=MICROSOFT), "target")
    model = b.model([("x", "f32", x.shape), ("target", "i64", target.shape)], [(loss, "f32")])
    gelu = run_reference("Gelu", x)[0]
    assert_close(run(model, x, target), run_reference("SoftmaxCrossEntropyLoss", gelu, target))


def test_error_in_operator_body_names_operator() -> None:
    model, _ = single_operator_model("CenterCropPad", f32(4, 8), np.array([2]), axes=[0])
    with pytest.raises(MeshgenError, match=r"MG0104: CenterCropPad '/CenterCropPad': Pad .* but is data here") as error:
        read(model)
    assert "once input 'a1' has a value" in str(error.value)


def test_skip_norms_match_standard_norms_of_sum() -> None:
    x, skip, scale, beta, bias = f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)
    outputs = run_operator(
        "SkipLayerNormalization", x, skip, scale, beta, bias, results=4, domain=MICROSOFT, epsilon=1e-5
    )
    assert_close([outputs[0]], run_reference("LayerNormalization", x + skip + bias, scale, beta))
    assert_close([outputs[3]], [x + skip + bias])
    rms = run_reference("RMSNormalization", x + skip, scale)
    assert_close(run_operator("SkipSimplifiedLayerNormalization", x, skip, scale, domain=MICROSOFT, epsilon=1e-5), rms)
    assert_close(run_operator("SimplifiedLayerNormalization", x + skip, scale, axis=-1, epsilon=1e-5), rms)


def test_multi_head_attention_matches_standard() -> None:
    q, k, v = f32(2, 5, 8), f32(2, 7, 8), f32(2, 7, 8)
    expected = run_reference("Attention", q, k, v, q_num_heads=2, kv_num_heads=2)
    assert_close(run_operator("MultiHeadAttention", q, k, v, domain=MICROSOFT, num_heads=2), expected)
    bias = f32(24)
    shifted = (operand + part for operand, part in zip((q, k, v), np.split(bias, 3), strict=True))
    expected = run_reference("Attention", *shifted, q_num_heads=2, kv_num_heads=2)
    assert_close(run_operator("MultiHeadAttention", q, k, v, bias, domain=MICROSOFT, num_heads=2), expected)
    keys = np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32)
    expected = run_reference("Attention", q, k, v, keys[:, None, None].astype(bool), q_num_heads=2, kv_num_heads=2)
    assert_close(run_operator("MultiHeadAttention", q, k, v, None, keys, domain=MICROSOFT, num_heads=2), expected)
    past = f32(2, 2, 3, 4), f32(2, 2, 3, 4)
    expected = run_reference("Attention", q, k, v, None, *past, results=3, q_num_heads=2, kv_num_heads=2)
    operands = (q, k, v, None, None, None, *past)
    assert_close(run_operator("MultiHeadAttention", *operands, results=3, domain=MICROSOFT, num_heads=2), expected)


def test_attention_with_packed_projection_matches_standard() -> None:
    x, weights, bias = f32(2, 5, 8), f32(8, 24) / 3, f32(24)
    parts = np.split(x @ weights + bias, 3, -1)
    for causal in (0, 1):
        expected = run_reference("Attention", *parts, q_num_heads=2, kv_num_heads=2, is_causal=causal)
        assert_close(
            run_operator("Attention", x, weights, bias, domain=MICROSOFT, num_heads=2, unidirectional=causal), expected
        )
    with pytest.raises(MeshgenError, match="a mask"):
        run_operator("Attention", x, weights, bias, np.ones(2, np.int32), domain=MICROSOFT, num_heads=2)


def test_runtime_rotary_embedding_matches_standard() -> None:
    x, cos, sin = f32(2, 3, 5, 8), f32(16, 4), f32(16, 4)
    positions = np.arange(2, 7)[None].repeat(2, 0)
    expected = run_reference("RotaryEmbedding", x, cos, sin, positions)
    for runtime_positions in (positions, np.array([2])):
        assert_close(run_operator("RotaryEmbedding", x, runtime_positions, cos, sin, domain=MICROSOFT), expected)


# Recurrent operators: directions and sequence lengths. The reference of the onnx package does not implement them.

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def states(op: str) -> int:
    return 2 if op == "LSTM" else 1


@pytest.mark.parametrize("op", GATES)
def test_bidirectional_rnn_equals_two_unidirectional(op: str) -> None:
    wide, x = GATES[op] * 6, f32(5, 3, 4)
    w, r, b = f32(2, wide, 4), f32(2, wide, 6), f32(2, 2 * wide)
    lengths = np.array([5, 2, 4], np.int32)
    first = f32(2, 3, 6)
    count = 1 + states(op)
    both = run_operator(op, x, w, r, b, lengths, first, results=count, hidden_size=6, direction="bidirectional")
    for d, name in enumerate(("forward", "reverse")):
        one_direction = run_operator(op, x, w[d : d + 1], r[d : d + 1], b[d : d + 1], lengths, first[d : d + 1], results=count, hidden_size=6, direction=name)  # fmt: skip
        assert_close(
            [both[0][:, d], *(state[d] for state in both[1:])],
            [one_direction[0][:, 0], *(state[0] for state in one_direction[1:])],
        )


@pytest.mark.parametrize("op", GATES)
def test_rnn_sequence_lengths_apply_per_batch_row(op: str) -> None:
    wide, x, lengths = GATES[op] * 6, f32(5, 3, 4), [5, 2, 4]
    w, r, b = f32(1, wide, 4), f32(1, wide, 6), f32(1, 2 * wide)
    count = 1 + states(op)
    for name in ("forward", "reverse"):
        outputs = run_operator(
            op, x, w, r, b, np.array(lengths, np.int32), results=count, hidden_size=6, direction=name
        )
        for n, length in enumerate(lengths):
            rows = x[:length, n : n + 1]
            rows = rows if name == "forward" else rows[::-1].copy()
            expected_rows, *expected_states = run_reference(op, rows, w, r, b, results=count, hidden_size=6)
            expected_rows = expected_rows if name == "forward" else expected_rows[::-1]
            assert_close([outputs[0][:length, :, n : n + 1]], [expected_rows])
            assert not outputs[0][length:, :, n].any()
            assert_close([state[:, n : n + 1] for state in outputs[1:]], expected_states)


# Loops, gathers, ranges, cached attention and packed weights
# -----------------------------------------------------------


def test_loop_with_runtime_condition_carries_values() -> None:
    from onnx import TensorProto, helper

    scalar = lambda name, kind: helper.make_tensor_value_info(name, kind, [])  # noqa: E731
    vector = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])  # noqa: E731
    nodes = [
        helper.make_node("Add", ["v", "v"], ["w"]),
        helper.make_node("ReduceMax", ["w"], ["most"], keepdims=0),
        helper.make_node("Less", ["most", "limit"], ["on"]),
    ]
    body = helper.make_graph(nodes, "body", [scalar("n", TensorProto.INT64), scalar("c", TensorProto.BOOL), vector("v")], [scalar("on", TensorProto.BOOL), vector("w")])  # fmt: skip
    node = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)
    inputs = [scalar("trips", TensorProto.INT64), vector("x"), scalar("limit", TensorProto.FLOAT)]
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, [vector("y")]), opset_imports=[helper.make_opsetid("", 18)]
    )
    x = np.array([1, 2, 3, 4], np.float32)
    for trip_count, limit, factor in ((3, 1e9, 8), (9, 30, 8), (0, 30, 1), (9, 0, 2)):
        assert_close(run(model, np.int64(trip_count), x, np.float32(limit)), [x * factor])


def test_scan_output_of_empty_loop_has_declared_type() -> None:
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", [a], [b]) for a, b in (("c", "on"), ("n", "row"))],
        "body",
        [value("n", TensorProto.INT64, []), value("c", TensorProto.BOOL, [])],
        [value("on", TensorProto.BOOL, []), value("row", TensorProto.INT64, [])],
    )
    b = Builder()
    b.nodes.append(helper.make_node("Loop", [b.array("trips", np.int64(0)), ""], ["rows"], body=body))
    module, _ = read(b.model([], [("rows", "i64")]), {"d": 2})
    assert str(module.graph.outputs[0].type) == "i64[0]"


def test_gather_of_regular_rows_becomes_slice() -> None:
    table, rows = f32(9, 4), np.array([1, 3, 5])
    model, inputs = single_operator_model("Gather", table, rows, known=(1,))
    module, _ = read(model, {"d": 2})
    assert "gather" not in {node.op for node in module.graph.nodes}
    assert_close(run(model, *inputs), [table[rows]])
    for irregular_rows in (np.array([5, 1, 1]), np.array([[0, 1]]), np.array(-2), np.array([-1])):
        assert_close(run_operator("Gather", table, irregular_rows, known=(1,)), [table[irregular_rows]])


def test_long_range_becomes_iota() -> None:
    for count in (10, 1 << 40):
        b = Builder()
        numbers = b("Range", b.array("a", np.int64(3)), b.array("b", np.int64(count)), b.array("c", np.int64(2)))
        module, _ = read(b.model([("x", "i64", [2])], [(b("Gather", numbers, "x"), "i64")]), {"d": 2})
        assert ("iota" in {node.op for node in module.graph.nodes}) == (count > 1 << 16)


def test_group_query_attention_updates_cache_per_sequence() -> None:
    """The expected result is standard attention over the valid rows of each sequence, which ONNX Runtime also computes."""
    q, k, v, past_k, past_v = f32(2, 1, 32), f32(2, 1, 16), f32(2, 1, 16), f32(2, 2, 8, 8), f32(2, 2, 8, 8)
    lengths, total = np.array([6, 3], np.int32), np.array(7, np.int32)
    operands = (q, k, v, past_k, past_v, lengths, total)
    options = {"results": 3, "domain": MICROSOFT, "known": (6,), "num_heads": 4, "kv_num_heads": 2}
    outputs = run_operator("GroupQueryAttention", *operands, **options)
    packed = run_operator("GroupQueryAttention", np.concatenate([q, k, v], -1), None, None, *operands[3:], **options)
    assert_close(packed, outputs)
    for n, end in enumerate(lengths):
        keys, values = past_k[n : n + 1].copy(), past_v[n : n + 1].copy()
        keys[0, :, end], values[0, :, end] = k[n].reshape(2, 8), v[n].reshape(2, 8)
        assert_close([outputs[1][n], outputs[2][n]], [keys[0], values[0]])
        rows = (q[n : n + 1].reshape(1, 4, 1, 8), keys[:, :, : end + 1], values[:, :, : end + 1])
        assert_close([outputs[0][n].reshape(4, 8)], [run_reference("Attention", *rows)[0][0, :, 0]])
    with pytest.raises(MeshgenError, match="'operand 7' decides shapes, but is data"):
        run_operator("GroupQueryAttention", *operands, **options | {"known": ()})


def test_group_query_attention_applies_rotary_and_local_window() -> None:
    q, k, v, cos, sin = f32(2, 5, 32), f32(2, 5, 16), f32(2, 5, 16), f32(9, 4), f32(9, 4)
    lengths, total = np.array([4, 4], np.int32), np.array(5, np.int32)
    options = {"results": 3, "domain": MICROSOFT, "known": (6,), "num_heads": 4, "kv_num_heads": 2}
    outputs = run_operator("GroupQueryAttention", q, k, v, None, None, lengths, total, cos, sin, do_rotary=1, local_window_size=2, softcap=3.0, **options)  # fmt: skip
    positions = np.tile(np.arange(5), (2, 1))
    rotated = [
        run_reference("RotaryEmbedding", x, cos, sin, positions, num_heads=heads)[0] for x, heads in ((q, 4), (k, 2))
    ]
    distance = np.subtract.outer(np.arange(5), np.arange(5))
    expected = run_reference(
        "Attention", *rotated, v, (distance >= 0) & (distance < 2), softcap=3.0, q_num_heads=4, kv_num_heads=2
    )
    assert_close([outputs[0]], expected)
    assert_close(outputs[1:], [x.reshape(2, 5, 2, 8).transpose(0, 2, 1, 3) for x in (rotated[1], v)])


@pytest.mark.parametrize("bits, zeros", [(2, None), (4, None), (4, "packed"), (4, "floats"), (8, "packed")])
def test_matmul_with_packed_weights_matches_dequantized_gemm(bits: int, zeros: str | None) -> None:
    n, k, block, count = 6, 40, 16, 3
    numbers = RANDOM.integers(0, 2**bits, (n, count, block)).astype(np.uint8)
    x, scales, bias = f32(2, 3, k), f32(n, count), f32(n)
    zero_points = {None: np.full((n, count), 2.0 ** (bits - 1)), "floats": f32(n, count)}.get(
        zeros, RANDOM.integers(0, 2**bits, (n, count))
    )
    packed_zero_points = {None: None, "floats": zero_points}.get(
        zeros, packed_bits(zero_points.astype(np.uint8), bits).reshape(-1)
    )
    outputs = run_operator("MatMulNBits", x, packed_bits(numbers, bits), scales.reshape(-1), packed_zero_points, None, bias, domain=MICROSOFT, N=n, K=k, bits=bits, block_size=block)  # fmt: skip
    weights = ((numbers - zero_points[..., None]) * scales[..., None]).reshape(n, -1)[:, :k]
    assert_close(outputs, [x @ weights.T + bias], 2e-4)


@pytest.mark.parametrize("columns", [29, 64])
def test_packed_weights_of_wrong_length_are_rejected(columns: int) -> None:
    numbers = packed_bits(np.zeros((6, 2, 16), np.uint8), 4)
    with pytest.raises(MeshgenError, match="columns, but K is 30"):
        run_operator("MatMulNBits", f32(2, columns), numbers, f32(12), None, None, None, domain=MICROSOFT, N=6, K=30, bits=4, block_size=16)  # fmt: skip


def packed_bits(numbers: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Pack integers of `bits` bits into bytes along the last dim, the lowest bits first."""
    short = -numbers.shape[-1] % (8 // bits)
    grouped = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, short)]).reshape(*numbers.shape[:-1], -1, 8 // bits)
    return np.asarray((grouped.astype(np.uint32) << np.arange(0, 8, bits)).sum(-1), np.uint8)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(("ignored", "weighted"), [(None, False), (2, True), (-1, False)])
def test_cross_entropy_matches_standard(reduction: str, ignored: int | None, weighted: bool) -> None:
    labels = RANDOM.integers(0, 5, (3, 4))
    labels[0, 0] = labels[0, 0] if ignored is None else ignored
    ignore_options = {} if ignored is None else {"ignore_index": ignored}
    operands = f32(3, 5, 4), labels, *([abs(f32(5))] if weighted else [])
    options = {"reduction": reduction, "results": 2, **ignore_options}
    assert_close(
        run_operator("SoftmaxCrossEntropyLoss", *operands, **options),
        run_reference("SoftmaxCrossEntropyLoss", *operands, **options),
    )
