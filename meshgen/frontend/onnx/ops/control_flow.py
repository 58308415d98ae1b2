"""Import of If, Loop and Scan.

Constant conditions are decided at import. A loop with a constant trip count becomes a scan, or is unrolled if the
carried values change shape between iterations. Other loops become while loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from meshgen.errors import ProgramError
from meshgen.frontend.onnx.ops.casts import dtype_of_code
from meshgen.frontend.onnx.ops.table import ALL, Call, Elements, op
from meshgen.frontend.tracer import control_flow
from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.joining import flip, stack
from meshgen.frontend.tracer.logic import logical_and
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import moveaxis, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor

# Largest trip count for unrolling a loop whose carried values change shape, which therefore cannot become a scan.
MAX_FALLBACK_UNROLL = 64
# Largest trip count of any unrolled loop. Chosen to bound import time and program size.
MAX_UNROLL = 1 << 14
# Largest constant trip count of a scan; loops with a larger one become while loops. Chosen: exporters write larger
# numbers for loops that only end by their condition.
MAX_TRIP_COUNT = 1 << 31


@op("If", plain=(0,))
def if_(call: Call, flag: Operand) -> Any:
    if not isinstance(flag, Tensor):
        return call.run(call["then_branch"] if bool(flag) else call["else_branch"], [])
    branches = [partial(_branch, call, name) for name in ("then_branch", "else_branch")]
    return control_flow.cond(reshape(flag, ()), *branches)


def _branch(call: Call, name: str) -> tuple[Any, ...]:
    """Return the results of the branch `name` of an `If`. Error messages of nodes in the branch contain this name."""
    try:
        return tuple(call.run(call[name], []))
    except ProgramError as error:
        branch_title = f"{name} of '{call.name}'" if call.name else name
        raise type(error)(
            *(replace(diagnostic, message=f"{branch_title}: {diagnostic.message}") for diagnostic in error.diagnostics)
        ) from error


@op("Loop", plain=ALL)
def loop(call: Call, trips: Operand, flag: Operand, *carried: Any) -> Any:
    if isinstance(flag, np.ndarray) and not bool(flag):
        trips, flag = np.zeros((), np.int64), None
    if isinstance(trips, Tensor) or isinstance(flag, Tensor) or trips is None:
        return _trace_as_while(call, trips, flag, carried)
    count = max(0, int(np.asarray(trips).reshape(())))
    if count > MAX_TRIP_COUNT:
        return _trace_as_while(call, trips, flag, carried)
    if any(value is None or isinstance(value, Elements) for value in carried) or not count:
        return _unroll(call, count, carried)
    try:
        return _trace_as_scan(call, count, carried)
    except _HasDynamicEnd:
        return _trace_as_while(call, trips, flag, carried)
    except ProgramError:
        if count > MAX_FALLBACK_UNROLL:
            raise
        return _unroll(call, count, carried)


class _HasDynamicEnd(Exception):
    """Raised if a loop may end before the given trip count, because the loop body computes the condition to continue."""


def _trace_iteration(call: Call, index: Operand, carried: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Trace one iteration of a loop: return the next carried values and the scan outputs of the iteration.

    Raises:
        _HasDynamicEnd: the loop may end after this iteration.
    """
    goes_on, *results = call.run(call["body"], [index, np.asarray(True), *carried])
    if isinstance(goes_on, Tensor) or not bool(goes_on):
        raise _HasDynamicEnd
    return results[: len(carried)], results[len(carried) :]


def _trace_as_scan(call: Call, count: int, carried: Sequence[Any]) -> list[Any]:
    def body(state: Any, index: Tensor) -> Any:
        next_state, rows = _trace_iteration(call, index, state)
        return tuple(tensor(value) for value in next_state), tuple(tensor(row) for row in rows)

    last, rows = control_flow.scan(body, tuple(tensor(value) for value in carried), iota((count,), 0, "i64"))
    return [*last, *rows]


def _unroll(call: Call, count: int, carried: Sequence[Any]) -> list[Any]:
    """Unroll `count` iterations of a loop. The carried values may be sequences, or change shape between iterations."""
    if count > MAX_UNROLL:
        text = f"{count:,} iterations would be unrolled, because the loop carries sequences, or values that change their shape"
        refuse(text, f"the limit is {MAX_UNROLL:,}", "MG0108")
    state, rows = list(carried), list[list[Any]]()
    for index in range(count):
        try:
            state, outputs = _trace_iteration(call, np.asarray(index, np.int64), state)
        except _HasDynamicEnd:
            refuse("a loop with a computed exit condition carries values that change their shape", "keep their shapes the same in every iteration")  # fmt: skip
        rows.append(outputs)
    if rows:
        return [*state, *(stack(column, 0) for column in zip(*rows, strict=True))]
    shapes = [output.type.tensor_type for output in call["body"].output[1 + len(state) :]]
    if any(not kind.HasField("shape") for kind in shapes):
        refuse("a loop with trip count 0 has scan outputs of unknown shape")
    sizes = ([0, *(dim.dim_value for dim in kind.shape.dim)] for kind in shapes)
    return [*state, *(zeros(output, dtype_of_code(kind.elem_type)) for output, kind in zip(sizes, shapes, strict=True))]


def _trace_as_while(call: Call, trips: Operand, flag: Operand, carried: Sequence[Any]) -> Any:
    """Convert a loop whose trip count is unknown to a while loop. Such a loop cannot have scan outputs."""
    if len(call["body"].output) != 1 + len(carried):
        refuse("the trip count of a loop with scan outputs decides shapes, but is data here", "make the trip count a constant")  # fmt: skip
    initial_flag = tensor(np.asarray(True)) if flag is None else reshape(tensor(flag), ())

    def goes_on(state: Any) -> Tensor:
        index, continues, _ = state
        return continues if trips is None else logical_and(continues, index < reshape(tensor(trips), ()))

    def body(state: Any) -> Any:
        index, continues, values = state
        next_flag, *results = call.run(call["body"], [index, continues, *values])
        never_ends = next_flag is continues or (isinstance(next_flag, np.ndarray) and bool(next_flag))
        if isinstance(trips, np.ndarray) and int(trips.reshape(())) > MAX_TRIP_COUNT and never_ends:
            refuse(
                f"the loop runs {int(trips.reshape(())):,} iterations: its condition never changes",
                f"the limit is {MAX_TRIP_COUNT:,}",
            )
        return index + 1, reshape(tensor(next_flag), ()), tuple(tensor(value) for value in results)

    start = tensor(np.zeros((), np.int64)), initial_flag, tuple(tensor(value) for value in carried)
    return list(control_flow.while_loop(goes_on, body, start)[2])


@op("Scan")
def scan(call: Call, *operands: Operand) -> Any:
    """Import `Scan`: return the final carried states, then the outputs of all iterations, stacked."""
    if call.version < 9:
        refuse("Scan of opset 8 is not supported", "convert the model with onnx.version_converter")
    count = call["num_scan_inputs"]
    states, stacks = operands[: len(operands) - count], operands[len(operands) - count :]
    num_outputs = len(call["body"].output) - len(states)
    axes, backwards = call["scan_input_axes"] or [0] * count, call["scan_input_directions"] or [0] * count
    rows = [_flip_if(moveaxis(x, a, 0), b) for x, a, b in zip(stacks, axes, backwards, strict=True)]

    def body(state: Any, row: Any) -> Any:
        results = [tensor(result) for result in call.run(call["body"], [*state, *row])]
        return tuple(results[: len(states)]), tuple(results[len(states) :])

    last, outputs = control_flow.scan(body, tuple(map(tensor, states)), tuple(rows))
    axes, backwards = call["scan_output_axes"] or [0] * num_outputs, call["scan_output_directions"] or [0] * num_outputs
    return [*last, *(moveaxis(_flip_if(x, b), 0, a) for x, a, b in zip(outputs, axes, backwards, strict=True))]


def _flip_if(x: Operand, is_backwards: int) -> Tensor:
    return flip(x, 0) if is_backwards else tensor(x)
