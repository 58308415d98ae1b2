"""ONNX models whose import would take too much time or memory. They are rejected with the reason and the location."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from meshgen import budget  # noqa: E402
from meshgen.api import read  # noqa: E402
from meshgen.errors import MeshgenError  # noqa: E402
from tests.frontend.test_onnx_operators import assert_close, f32, run, run_operator  # noqa: E402
from tests.onnx_models import Builder  # noqa: E402

INFOS = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y", "v", "w")}
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("d", 1)]


def error_text(model: Any, **options: Any) -> str:
    with pytest.raises(MeshgenError) as error:
        read(model, {"d": 2}, **options)
    return str(error.value)


def calls(levels: int, first: str = "Tanh") -> Any:
    """Return a model with a chain of `levels` functions, each of which calls the previous one twice.

    The first one calls `first`, which is an operator or one of the functions.
    """
    bodies = [[helper.make_node(first, ["a"], ["b"], domain="" if first == "Tanh" else "d")]]
    for n in range(1, levels):
        called = f"f{n - 1}"
        bodies.append(
            [helper.make_node(called, ["a"], ["t"], domain="d"), helper.make_node(called, ["t"], ["b"], domain="d")]
        )
    functions = [helper.make_function("d", f"f{n}", ["a"], ["b"], body, OPSETS) for n, body in enumerate(bodies)]
    node = helper.make_node(f"f{levels - 1}", ["x"], ["y"], domain="d")
    graph = helper.make_graph([node], "g", [INFOS["x"]], [INFOS["y"]])
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions)


def test_exponential_function_calls_are_rejected_before_inlining() -> None:
    text = error_text(calls(40))
    assert "g: error MG0108: the model, with its functions inlined, has 5.5e+11 operations" in text
    assert len(read(calls(5), {"d": 2})[0].graph.nodes) == 16


def test_recursive_function_is_rejected() -> None:
    assert "MG0104" in error_text(calls(3, first="f2"))


@pytest.mark.parametrize("is_read", [False, True])
def test_undefined_function_result_is_rejected(is_read: bool) -> None:
    function = helper.make_function("d", "f", ["a"], ["b"], [helper.make_node("Tanh", ["a"], ["c"])], OPSETS)
    nodes = [helper.make_node("f", ["x"], ["v" if is_read else "y"], domain="d")]
    nodes += [helper.make_node("Tanh", ["v"], ["y"])] * is_read
    graph = helper.make_graph(nodes, "g", [INFOS["x"]], [INFOS["y"]])
    message = error_text(helper.make_model(graph, opset_imports=OPSETS, functions=[function]))
    assert "MG0104" in message and "is used, but not defined" in message


def test_name_that_is_not_utf8_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(calls(1).SerializeToString().replace(b"\x12\x01g", b"\x12\x01\xff"))
    assert "MG0104: the model is malformed" in error_text(tmp_path / "m.onnx")


def test_absurd_line_number_in_stack_trace_is_ignored() -> None:
    model = calls(1)
    model.graph.node[0].doc_string = f'File "m.py", line {"9" * 5000}, in f'
    read(model, {"d": 2})


def loop(trip_count: int, condition: str, rows: bool = False) -> Any:
    """Return a model that doubles v in each iteration of a loop with a constant trip count."""
    nodes = [helper.make_node("Add", ["v", "v"], ["w"])]
    if condition == "less":
        nodes += [
            helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0),
            helper.make_node("Less", ["m", "x0"], ["on"]),
        ]
    else:
        nodes += [helper.make_node("Identity", ["c"], ["on"])]
    scalar = lambda name, kind: helper.make_tensor_value_info(name, kind, [])  # noqa: E731
    outs = [scalar("on", TensorProto.BOOL), INFOS["w"], *([INFOS["v"]] if rows else [])]
    body = helper.make_graph(
        nodes, "body", [scalar("n", TensorProto.INT64), scalar("c", TensorProto.BOOL), INFOS["v"]], outs
    )
    b = Builder()
    names = b.array("trips", np.int64(trip_count)), b.array("go", np.array(True)), b.array("x0", np.float32(30))
    b.nodes.append(
        helper.make_node("Loop", [*names[:2], "x"], ["y", *(["z"] if rows else [])], name="turns", body=body)
    )
    return b.model([("x", "f32", [4])], [("y", "f32"), *([("z", "f32")] if rows else [])])


def test_loop_with_huge_trip_count_is_rejected() -> None:
    assert (
        "MG0104: Loop 'turns': the loop runs 1,125,899,906,842,624 iterations: its condition never changes"
        in error_text(loop(2**50, ""))
    )
    x = f32(4)
    assert_close(run(loop(3, ""), x), [x * 8])


def test_loop_with_condition_may_have_huge_trip_count() -> None:
    x = np.array([1, 2, 3, 4], np.float32)
    assert_close(run(loop(2**63 - 1, "less"), x), [x * 8])


def growing(trip_count: int) -> Any:
    """Return a model whose loop appends an element to a sequence in each iteration. Its body has two nodes."""
    body = Builder()
    grown = body("SequenceInsert", "s", "x")
    on = body("Identity", "c")
    scalar = lambda name, kind: helper.make_tensor_value_info(name, kind, [])  # noqa: E731
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    ins = [scalar("n", TensorProto.INT64), scalar("c", TensorProto.BOOL), helper.make_value_info("s", kind)]
    outs = [scalar(on, TensorProto.BOOL), helper.make_value_info(grown, kind)]
    graph = helper.make_graph(body.nodes, "body", ins, outs)
    b = Builder()
    names = b.array("trips", np.int64(trip_count)), b.array("go", np.array(True)), b("SequenceEmpty")
    b.nodes.append(helper.make_node("Loop", list(names), ["all"], name="turns", body=graph))
    return b.model([("x", "f32", [4])], [(b("SequenceLength", "all"), "i64")])


def test_unrolled_iterations_are_limited() -> None:
    assert "MG0108: Loop 'turns': 1,048,576 iterations would be unrolled" in error_text(growing(2**20))


def test_operation_limit_counts_unrolled_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_OPERATIONS", 20)
    assert run(growing(8), f32(4)) == [8]
    assert (
        "MG0108: SequenceInsert '/SequenceInsert': the model, with its loops unrolled, has 21 operations"
        in error_text(growing(10))
    )


@pytest.mark.parametrize("step, code", [(0, "MG0104"), (1, "MG0108")])
def test_endless_or_huge_range_is_rejected(step: int, code: str) -> None:
    b = Builder()
    y = b("Range", b.array("a", np.int64(0)), b.array("b", np.int64(2**62)), b.array("c", np.int64(step)))
    text = error_text(b.model([("x", "f32", [4])], [(y, "i64")]))
    assert code in text and ("steps of 0 has no end" in text or "a tensor may have" in text)


@pytest.mark.parametrize("op, arrays, known, attributes", [
    ("Resize", (f32(1, 1, 2, 2), None, np.array([1, 1, 1e12, 1], np.float32)), (2,), {"mode": "linear"}),
    ("Resize", (f32(1, 1, 2, 2), None, np.array([1, 1, 0, 1], np.float32)), (2,), {"mode": "nearest"}),
    ("Pad", (f32(2, 2), np.array([0, 0, 2**40, 0])), (1,), {"mode": "reflect"}),
    ("Split", (f32(4),), (), {"num_outputs": 2**40, "opset": 18, "results": 2}),
    ("STFT", (f32(1, 64, 1), np.array(1), None, np.array(2**40)), (1, 3), {"opset": 17}),
    ("MaxPool", (f32(1, 1, 4, 4),), (), {"kernel_shape": [2**20, 2**20], "pads": [2**19] * 4, "results": 2}),
    ("AveragePool", (f32(1, 1, 4),), (), {"kernel_shape": [1], "pads": [2**40, 2**40]}),
    ("RoiAlign", (f32(1, 1, 4, 4), f32(1, 4), np.zeros(1, np.int64)), (), {"sampling_ratio": 2**30, "output_height": 2**20}),
    ("Col2Im", (f32(1, 4, 1), np.array([2**20, 2**20]), np.array([2, 2])), (1, 2), {}),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_values_computed_during_import_are_limited(op: str, arrays: Any, known: Any, attributes: Any) -> None:
    with pytest.raises(MeshgenError, match=r"MG010[48]") as error:
        run_operator(op, *arrays, known=known, **attributes)
    assert "Error:" not in str(error.value)


def test_constant_folding_skips_huge_intermediates() -> None:
    b = Builder()
    ones = b.array("a", np.ones((1, 1, 2), np.float32))
    y = b("Add", "x", b("MaxPool", ones, kernel_shape=[2], pads=[2**30, 2**30], strides=[2**30]))
    module, _ = read(b.model([("x", "f32", [1, 1, 3])], [(y, "f32")]), {"d": 2})
    assert str(module.graph.outputs[0].type) == "f32[1,1,3]"


@pytest.mark.parametrize("size, text", [("9**9**9**9", "MG0108: .*too large"), ("n**99", "MG0108: .*too large"), ("n - 5000", "MG0208: .*is -4933 where n is 67"), ("n**-1", "MG0208: .*is not a size")])  # fmt: skip
def test_invalid_symbolic_size_is_rejected(size: str, text: str) -> None:
    b = Builder()
    model = b.model([("x", "f32", ["n", size])], [(b("Relu", "x"), "f32")])
    with pytest.raises(MeshgenError, match=text) as error:
        read(model, {"d": 2})
    assert "model: error" in str(error.value)
