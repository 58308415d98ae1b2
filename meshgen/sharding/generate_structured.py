"""More ops for generated programs: windows, run-time places, sorting and loops."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.sharding.generate_ops import MAX_ELEMENTS, Writer

_SCALAR = TensorType((), "i32")


def dynamic_slice(writer: Writer) -> None:
    """A window of one dim, at a place that may lie past the end (then it is moved inside)."""
    if value := writer.pick(lambda v: v.type.rank > 0):
        dim, sizes = writer.integer(0, value.type.rank), value.type.sizes
        window = tuple(writer.integer(1, n + 1) if d == dim else n for d, n in enumerate(sizes))
        starts = [writer.new_input(_SCALAR) for _ in sizes]
        writer.add("dynamic_slice", [value, *starts], value.type.with_shape(window), {"slice_sizes": window})


def dynamic_update_slice(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.rank > 0):
        dim, sizes = writer.integer(0, value.type.rank), value.type.sizes
        window = tuple(writer.integer(1, n + 1) if d == dim else n for d, n in enumerate(sizes))
        update, starts = writer.new_input(value.type.with_shape(window)), [writer.new_input(_SCALAR) for _ in sizes]
        writer.add("dynamic_update_slice", [value, update, *starts], value.type)


def convolution(writer: Writer) -> None:
    """Batch x channels x length with padding, strides and a kernel of up to three elements."""
    if value := writer.pick(lambda v: v.type.rank == 3 and v.type.dtype in ("f32", "i32")):
        batch, channels, length = value.type.sizes
        width, stride, low, high = (writer.integer(1, 4), writer.integer(1, 3), *(writer.integer(0, 3) for _ in "lh"))
        outputs, steps = writer.integer(1, 8), (length + low + high - width) // stride + 1
        if steps < 1 or batch * outputs * steps > MAX_ELEMENTS:
            return
        kernel = writer.new_input(value.type.with_shape((outputs, channels, width)))
        attrs = {
            "input_batch": 0, "input_feature": 1, "input_spatial": (2,), "kernel_output_feature": 0,
            "kernel_input_feature": 1, "kernel_spatial": (2,), "output_batch": 0, "output_feature": 1,
            "output_spatial": (2,), "window_strides": (stride,), "low": (low,), "high": (high,), "lhs_dilation": (1,),
            "rhs_dilation": (1,), "window_reversal": (False,), "feature_group_count": 1, "batch_group_count": 1,
            "precision": ("DEFAULT", "DEFAULT"),
        }  # fmt: skip
        kind = value.type.with_shape((batch, outputs, steps))
        writer.add("convolution", [value, kernel], kind, attrs, rounds=value.type.dtype == "f32")


def reduce_window(writer: Writer) -> None:
    """The maximum of neighbours along one dim, with padding."""
    if value := writer.pick(lambda v: v.type.rank > 0 and v.type.dtype in ("f32", "i32")):
        dim, ones = writer.integer(0, value.type.rank), (1,) * value.type.rank
        size = value.type.sizes[dim]
        width, stride, low, high = (writer.integer(1, 4), writer.integer(1, 3), *(writer.integer(0, 2) for _ in "lh"))
        steps = (size + low + high - width) // stride + 1
        if steps < 1:
            return
        attrs = {
            "window_dimensions": _at(ones, dim, width), "window_strides": _at(ones, dim, stride),
            "base_dilations": ones, "window_dilations": ones,
            "low": _at((0,) * len(ones), dim, low), "high": _at((0,) * len(ones), dim, high),
        }  # fmt: skip
        lowest = np.array(-100, value.type.numpy_dtype)
        init = writer.add("constant", [], TensorType((), value.type.dtype), {"value": lowest})
        kind = value.type.with_shape(_at(value.type.sizes, dim, steps))
        writer.add("reduce_window", [value, init], kind, attrs)
        writer.graph.nodes[-1].regions = (_binary_body("maximum", value.type.dtype),)


def _at(sizes: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*sizes[:dim], size, *sizes[dim + 1 :])


def _binary_body(op: str, dtype: str) -> Graph:
    kind = TensorType((), dtype)
    body = Graph("body", [Value(kind, "a"), Value(kind, "b")])
    body.outputs = [body.add(op, body.inputs, [kind]).result]
    return body


def sort(writer: Writer) -> None:
    """Ascending along one dim; only of values with the same bits everywhere: equal ones may change places."""
    if value := writer.pick(lambda v: v in writer.exact and v.type.rank > 0 and v.type.dtype in ("f32", "i32")):
        kind = TensorType((), value.type.dtype)
        body = Graph("order", [Value(kind, "a"), Value(kind, "b")])
        attrs = {"direction": "LT", "compare_type": ""}
        body.outputs = [body.add("compare", body.inputs, [TensorType((), "i1")], attrs).result]
        writer.add("sort", [value], value.type, {"dim": writer.integer(0, value.type.rank), "is_stable": True})
        writer.graph.nodes[-1].regions = (body,)


def loop(writer: Writer) -> None:
    """Two to four times: `x = tanh(x) * y` with y from around the loop."""
    if value := writer.pick(lambda v: v.type.dtype == "f32"):
        other, counter = writer.partner(value), writer.add("constant", [], _SCALAR, {"value": np.array(0, np.int32)})
        condition, body = (Graph(name, [Value(_SCALAR, "i"), Value(value.type, "x")]) for name in ("while", "do"))
        trips = condition.add("constant", [], [_SCALAR], {"value": np.array(writer.integer(2, 5), np.int32)}).result
        attrs = {"direction": "LT", "compare_type": "SIGNED"}
        less = condition.add("compare", [condition.inputs[0], trips], [TensorType((), "i1")], attrs)
        condition.outputs = [less.result]
        one = body.add("constant", [], [_SCALAR], {"value": np.array(1, np.int32)}).result
        following = body.add("add", [body.inputs[0], one], [_SCALAR]).result
        bent = body.add("tanh", [body.inputs[1]], [value.type]).result
        body.outputs = [following, body.add("multiply", [bent, other], [value.type]).result]
        results = [Value(_SCALAR, "count"), Value(value.type, f"v{len(writer.graph.nodes)}")]
        writer.graph.nodes.append(Node("while", [counter, value], results, {}, None, None, (condition, body)))
        writer.values.append(results[1])


STRUCTURED = (dynamic_slice, dynamic_update_slice, convolution, convolution, reduce_window, sort, loop)
