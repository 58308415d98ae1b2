"""If, Loop and Scan. What decides them now is decided now; loops of a known number of trips become scans, others `while`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from meshgen.errors import ProgramError
from meshgen.frontend.onnx.ops.casts import kind_named
from meshgen.frontend.onnx.ops.table import ALL, Call, Elements, op
from meshgen.frontend.tracer import control_flow
from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.joining import flip, stack
from meshgen.frontend.tracer.logic import logical_and
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import moveaxis, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor

MOST_UNROLLED = 64  # trips of a loop that is written out, because what it carries changes its shape
MOST_WRITTEN_OUT = 1 << 14  # trips of any loop that is written out
MOST_TRIPS = (
    1 << 31
)  # of a loop of a known number of trips: exporters write larger numbers for loops that end by their condition


@op("If", plain=(0,))
def if_(call: Call, flag: Operand) -> Any:
    if not isinstance(flag, Tensor):
        return call.run(call["then_branch"] if bool(flag) else call["else_branch"], [])
    branches = [partial(_branch, call, name) for name in ("then_branch", "else_branch")]
    return control_flow.cond(reshape(flag, ()), *branches)


def _branch(call: Call, name: str) -> tuple[Any, ...]:
    """The results of a branch. Its faults say which branch they are of."""
    try:
        return tuple(call.run(call[name], []))
    except ProgramError as error:
        where = f"{name} of '{call.name}'" if call.name else name
        raise type(error)(*(replace(each, message=f"{where}: {each.message}") for each in error.diagnostics)) from error


@op("Loop", plain=ALL)
def loop(call: Call, trips: Operand, flag: Operand, *carried: Any) -> Any:
    if isinstance(flag, np.ndarray) and not bool(flag):
        trips, flag = np.zeros((), np.int64), None
    if isinstance(trips, Tensor) or isinstance(flag, Tensor) or trips is None:
        return _while(call, trips, flag, carried)
    count = max(0, int(np.asarray(trips).reshape(())))
    if count > MOST_TRIPS:
        return _while(call, trips, flag, carried)
    if any(each is None or isinstance(each, Elements) for each in carried) or not count:
        return _unrolled(call, count, carried)
    try:
        return _scanned(call, count, carried)
    except _StopsItself:
        return _while(call, trips, flag, carried)
    except ProgramError:
        if count > MOST_UNROLLED:
            raise
        return _unrolled(call, count, carried)


class _StopsItself(Exception):
    """The body of a loop computes whether it goes on."""


def _step(call: Call, number: Operand, carried: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What one trip carries on, and its rows. Raises _StopsItself where it may be the last one."""
    goes_on, *results = call.run(call["body"], [number, np.asarray(True), *carried])
    if isinstance(goes_on, Tensor) or not bool(goes_on):
        raise _StopsItself
    return results[: len(carried)], results[len(carried) :]


def _scanned(call: Call, count: int, carried: Sequence[Any]) -> list[Any]:
    def body(state: Any, number: Tensor) -> Any:
        after, rows = _step(call, number, state)
        return tuple(tensor(each) for each in after), tuple(tensor(row) for row in rows)

    last, rows = control_flow.scan(body, tuple(tensor(each) for each in carried), iota((count,), 0, "i64"))
    return [*last, *rows]


def _unrolled(call: Call, count: int, carried: Sequence[Any]) -> list[Any]:
    """Trip after trip: what is carried may change its shape, or be a sequence."""
    if count > MOST_WRITTEN_OUT:
        text = f"{count:,} trips would be written out, because the loop carries sequences, or values that change their shape"
        refuse(text, f"the limit is {MOST_WRITTEN_OUT:,}", "MG0108")
    state, rows = list(carried), list[list[Any]]()
    for number in range(count):
        try:
            state, made = _step(call, np.asarray(number, np.int64), state)
        except _StopsItself:
            refuse("a loop that computes whether it goes on carries values that change their shape", "make them the same on every trip")  # fmt: skip
        rows.append(made)
    if rows:
        return [*state, *(stack(column, 0) for column in zip(*rows, strict=True))]
    shapes = [each.type.tensor_type for each in call["body"].output[1 + len(state) :]]
    if any(not kind.HasField("shape") for kind in shapes):
        refuse("a loop of no trips has rows of unknown shape")
    sizes = ([0, *(dim.dim_value for dim in kind.shape.dim)] for kind in shapes)
    return [*state, *(zeros(each, kind_named(kind.elem_type)) for each, kind in zip(sizes, shapes, strict=True))]


def _while(call: Call, trips: Operand, flag: Operand, carried: Sequence[Any]) -> Any:
    """A loop whose end is data, which can carry values but not stack rows."""
    if len(call["body"].output) != 1 + len(carried):
        refuse("the number of trips of a loop that stacks rows decides shapes, but is data here", "make the number of trips a constant")  # fmt: skip
    first = tensor(np.asarray(True)) if flag is None else reshape(tensor(flag), ())

    def goes_on(state: Any) -> Tensor:
        number, is_on, _ = state
        return is_on if trips is None else logical_and(is_on, number < reshape(tensor(trips), ()))

    def body(state: Any) -> Any:
        number, is_on, values = state
        after, *results = call.run(call["body"], [number, is_on, *values])
        goes_on_for_ever = after is is_on or (isinstance(after, np.ndarray) and bool(after))
        if isinstance(trips, np.ndarray) and int(trips.reshape(())) > MOST_TRIPS and goes_on_for_ever:
            refuse(
                f"the loop makes {int(trips.reshape(())):,} trips: its condition never changes",
                f"the limit is {MOST_TRIPS:,}",
            )
        return number + 1, reshape(tensor(after), ()), tuple(tensor(each) for each in results)

    start = tensor(np.zeros((), np.int64)), first, tuple(tensor(each) for each in carried)
    return list(control_flow.while_loop(goes_on, body, start)[2])


@op("Scan")
def scan(call: Call, *operands: Operand) -> Any:
    """States, then stacks of which the body gets rows along `scan_input_axes`."""
    if call.version < 9:
        refuse("Scan of opset 8 is not supported", "convert the model with onnx.version_converter")
    count = call["num_scan_inputs"]
    states, stacks = operands[: len(operands) - count], operands[len(operands) - count :]
    made = len(call["body"].output) - len(states)
    axes, backwards = call["scan_input_axes"] or [0] * count, call["scan_input_directions"] or [0] * count
    rows = [_turned(moveaxis(x, a, 0), b) for x, a, b in zip(stacks, axes, backwards, strict=True)]

    def body(state: Any, row: Any) -> Any:
        results = [tensor(each) for each in call.run(call["body"], [*state, *row])]
        return tuple(results[: len(states)]), tuple(results[len(states) :])

    last, found = control_flow.scan(body, tuple(map(tensor, states)), tuple(rows))
    axes, backwards = call["scan_output_axes"] or [0] * made, call["scan_output_directions"] or [0] * made
    return [*last, *(moveaxis(_turned(x, b), 0, a) for x, a, b in zip(found, axes, backwards, strict=True))]


def _turned(x: Operand, is_backwards: int) -> Tensor:
    return flip(x, 0) if is_backwards else tensor(x)
