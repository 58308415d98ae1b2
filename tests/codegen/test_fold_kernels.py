"""Tests of reductions by a region over several values, fused with the element-wise ops before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen import api
from meshgen.codegen.fusion.producer_absorption import absorbed_nodes
from meshgen.codegen.missing_kernels import missing_kernel_faults
from meshgen.codegen.passes.split_reduction import split_reduction
from meshgen.codegen.triton_source import kernel_source
from meshgen.errors import CodegenError
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import ONE, Body, check
from tests.codegen.passes.after import after


def greatest(dtype: str) -> Graph:
    """Return a region that selects the greater (value, index) pair. NaN is greatest; the smaller index wins a tie."""
    r = Graph("", [Value(TensorType((), t)) for t in (dtype, "i32", dtype, "i32")])
    bit = TensorType((), "i1")
    x, i, y, j = r.inputs

    def compared(a: Value, b: Value, direction: str) -> Value:
        return r.add("compare", [a, b], [bit], {"direction": direction, "compare_type": ""}).result

    more = r.add("or", [compared(x, y, "GT"), compared(x, x, "NE")], [bit], {}).result
    same = r.add("and", [compared(x, y, "EQ"), compared(i, j, "LT")], [bit], {}).result
    first = r.add("or", [more, same], [bit], {}).result
    r.outputs = [
        r.add("select", [more, x, y], [x.type], {}).result,
        r.add("select", [first, i, j], [i.type], {}).result,
    ]
    return r


def argmax(type_: str, *dims: int, low: float = -np.inf, also_value: bool = True) -> Graph:
    b = Body(type_, name="argmax")
    (x,) = b.inputs
    result_sizes = [n for d, n in enumerate(x.type.sizes) if d not in dims]
    indices = b.op("iota", to=f"i32[{','.join(map(str, x.type.sizes))}]", dim=dims[-1])
    results = [Value(TensorType(tuple(result_sizes), t)) for t in (x.type.dtype, "i32")]
    inits = [b.constant(low, x.type.dtype), b.constant(0, "i32")]
    b.graph.nodes.append(Node("reduce_region", [x, indices, *inits], results, {"dims": dims}, regions=(greatest(x.type.dtype),)))  # fmt: skip
    return b.done(*(results if also_value else results[1:]))


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return values with many ties, and NaN in some rows."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.01, np.nan, rng.integers(0, 5, shape))


@pytest.mark.parametrize(("type_", "dims"), [("f32[37,1000]", (1,)), ("f32[3,9000]", (1,)), ("bf16[70,33]", (0,)), ("f64[4,6,50]", (2,)),
                                             ("f32[300,5]", (0,)), ("f32[1]", (0,)), ("f32[5,1]", (1,)), ("f16[2,3000]", (1,))])  # fmt: skip
def test_argmax_returns_the_first_maximum(type_: str, dims: tuple[int, ...]) -> None:
    graph = argmax(type_, *dims)
    kind = graph.inputs[0].type
    check(graph, args=[numbers(*kind.sizes).astype(kind.numpy_dtype)], ulps=0)
    check(argmax(type_, *dims, also_value=False), args=[np.full(kind.sizes, -np.inf, kind.numpy_dtype)])


def test_region_reduction_of_empty_rows_returns_initial_values() -> None:
    check(argmax("f32[3,0]", 1, low=4.0), ulps=0)


def test_non_neutral_initial_value_is_applied_once() -> None:
    check(argmax("f32[5,77]", 1, low=3.0), args=[numbers(5, 77).astype(np.float32)], ulps=0)


def test_region_reduces_bits_and_floats_together() -> None:
    b = Body("i1[7,90]", "f32[7,90]", name="sums")
    region = Graph("", [Value(TensorType((), t)) for t in ("i1", "f32", "i1", "f32")])
    p, x, q, y = region.inputs
    region.outputs = [region.add("xor", [p, q], [p.type], {}).result, region.add("add", [x, y], [x.type], {}).result]
    results = [Value(TensorType((7,), "i1")), Value(TensorType((7,), "f32"))]
    inits = [b.constant(1, "i1"), b.constant(0, "f32")]
    b.graph.nodes.append(Node("reduce_region", [*b.inputs, *inits], results, {"dims": (1,)}, regions=(region,)))
    check(b.done(*results), length=90)


def test_region_reduction_of_few_long_rows_is_split() -> None:
    graph = argmax("f32[2,131072]", 1)
    split = after(split_reduction, graph)
    assert [n.op for n in split.nodes].count("reduce_region") == 2
    x = numbers(2, 131072).astype(np.float32)
    for result, expected in zip(evaluate(split, [x]), evaluate(graph, [x]), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_region_reduction_fuses_its_sole_producers() -> None:
    text = """func.func @f(%x: tensor<64x100xf32>) -> (tensor<64xi32>, tensor<64x100xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %number = stablehlo.iota dim = 1 : tensor<64x100xi32>
  %e = stablehlo.exponential %x : tensor<64x100xf32>
  %y = stablehlo.multiply %e, %x : tensor<64x100xf32>
  %r:2 = stablehlo.reduce(%y init: %low), (%number init: %none) across dimensions = [1] : (tensor<64x100xf32>, tensor<64x100xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
   reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>) {
    %p = stablehlo.compare GE, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %s = stablehlo.select %p, %a, %c : tensor<i1>, tensor<f32>
    %t = stablehlo.select %p, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %s, %t : tensor<f32>, tensor<i32>
  }
  return %r#1, SECOND : tensor<64xi32>, tensor<64x100xf32>
}"""
    (body,) = api.plan(text.replace("SECOND", "%x"), {"x": 1}, target="cuda:sm_90").plan.kernels.values()
    assert {"exponential", "multiply", "reduce_region"} <= {node.op for node in body.nodes}
    check(body, ulps=0)
    kernels = api.plan(text.replace("SECOND", "%e"), {"x": 1}, target="cuda:sm_90").plan.kernels
    assert len(kernels) == 2, "%e is a result: its kernel writes it"


def test_producer_with_another_user_is_not_fused() -> None:
    graph = argmax("f32[4,9]", 1)
    (x,) = graph.inputs
    producer = Node("negate", [x], [Value(x.type)], {})
    graph.nodes.insert(0, producer)
    graph.nodes[-1].operands[0] = producer.result
    assert producer in absorbed_nodes(graph)
    graph.outputs.append(producer.result)
    assert producer not in absorbed_nodes(graph)


def test_region_with_unsupported_op_is_rejected_by_name() -> None:
    b = Body("f32[4,9]", name="odd")
    region = Graph("", [Value(TensorType((), "f32")) for _ in range(2)])
    factor = region.add("cholesky", region.inputs[:1], [TensorType((), "f32")], {"lower": True}).result
    region.outputs = [factor]
    result = Value(TensorType((4,), "f32"))
    b.graph.nodes.append(
        Node("reduce_region", [b.inputs[0], b.constant(0, "f32")], [result], {"dims": (1,)}, regions=(region,))
    )
    graph = b.done(result)
    (fault,) = missing_kernel_faults([(graph, 1)])
    assert "'cholesky' in the region of 'reduce_region'" in fault.message
    with pytest.raises(CodegenError, match="cholesky"):
        kernel_source("odd", graph, ONE)
