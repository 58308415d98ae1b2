"""LSTM, GRU and RNN. Each direction is one matmul for the inputs of all time steps, then a scan over the steps.

Shapes: t steps, b batch, d directions, g gates, h hidden size, i input size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from meshgen.frontend.onnx.ops.elementwise import RECURRENT
from meshgen.frontend.onnx.ops.table import Call, op
from meshgen.frontend.tracer.control_flow import scan
from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.joining import split, stack
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import expand_dims, moveaxis
from meshgen.frontend.tracer.tensor import Tensor

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Direction:
    """Parameters of a recurrent layer in one direction.

    `w` [g h, i] multiplies the inputs, `r` [g h, h] multiplies the state; the biases are [g h].
    """

    w: Tensor
    r: Tensor
    w_bias: Tensor
    r_bias: Tensor
    activations: Sequence[Activation]
    peepholes: Sequence[Tensor]
    is_reverse: bool


# Computes one step: (parameters, products of the step's inputs and weights [b, g h], states) -> next states. The first
# state is the output.
Step = Callable[[Direction, Tensor, Sequence[Tensor]], Sequence[Tensor]]


def _directions(call: Call, w: Tensor, r: Tensor, bias: Tensor | None, peepholes: Tensor | None, names: Sequence[str]) -> list[Direction]:  # fmt: skip
    count, gate_rows = w.shape[:2]
    hidden, expected = r.shape[-1], 2 if call["direction"] == "bidirectional" else 1
    if call["hidden_size"] not in (None, hidden):
        refuse(f"hidden_size is {call['hidden_size']}, but the weights of the state have {hidden} columns")
    if count != expected:
        refuse(f"the weights have {count} directions, but direction is '{call['direction']}'")
    biases = zeros((count, 2 * gate_rows), w.type.dtype) if bias is None else bias
    names_lower = [item.lower() for item in call["activations"] or list(names) * count]
    if unknown := [item for item in names_lower if item not in RECURRENT]:
        refuse(f"activation '{unknown[0]}' is not supported")
    alphas, betas = list(call["activation_alpha"] or []), list(call["activation_beta"] or [])
    functions = [_activation(name, alphas, betas, call["clip"]) for name in names_lower]
    directions: list[Direction] = []
    for d in range(count):
        w_bias, r_bias = split(biases[d], 2)
        direction_peepholes = [] if peepholes is None else split(peepholes[d], 3)
        activations = functions[d * len(names) : (d + 1) * len(names)]
        is_reverse = d == 1 or call["direction"] == "reverse"
        directions.append(Direction(w[d], r[d], w_bias, r_bias, activations, direction_peepholes, is_reverse))
    return directions


def _activation(name: str, alphas: list[float], betas: list[float], clip_bound: float | None) -> Activation:
    """Return the activation `name`. The parameters of the function are popped from `alphas` and `betas`.

    With `clip_bound`, the operand is clipped to [-clip_bound, clip_bound] first.
    """
    function, defaults = RECURRENT[name]
    numbers = [
        parameters.pop(0) if parameters else default
        for parameters, default in zip((alphas, betas), defaults, strict=False)
    ]
    return lambda x: function(x if clip_bound is None else clip(x, -clip_bound, clip_bound), *numbers)


def _run_directions(call: Call, x: Tensor, directions: Sequence[Direction], lengths: Tensor | None, initial: Sequence[Tensor | None], hidden: int, step: Step) -> Any:  # fmt: skip
    """Run all directions over x [t, b, i].

    Returns the outputs [t, d, b, h] and the last states [d, b, h]. If the attribute `layout` is 1, b is the first dim
    of all operands and results.
    """
    rows = moveaxis(x, 0, 1) if call["layout"] else x
    batch = rows.shape[1]
    results: list[Tensor] = []
    last_states: list[Sequence[Tensor]] = []
    for d, direction in enumerate(directions):
        first = [zeros((batch, hidden), rows.type.dtype) if state_ is None else
                 state_[(slice(None), d) if call["layout"] else d] for state_ in initial]  # fmt: skip
        projected = matmul(rows, direction.w.transpose()) + direction.w_bias
        last, stacked = _scan_direction(direction, projected, lengths, first, step)
        results.append(stacked)
        last_states.append(last)
    outputs = stack(results, 1)
    states = [stack(column, 0) for column in zip(*last_states, strict=True)]
    if call["layout"]:
        outputs, states = outputs.transpose(2, 0, 1, 3), [moveaxis(state, 0, 1) for state in states]
    return outputs, *states


def _scan_direction(
    direction: Direction, projections: Tensor, lengths: Tensor | None, first: Sequence[Tensor], step: Step
) -> Any:
    """Run one direction over `projections`, the products of inputs and weights.

    Returns the last states and all outputs.

    Sequence b has `lengths[b]` steps; in later steps, the outputs of b are zeros and the states of b do not change.
    """

    def body(states: Any, row: Any) -> Any:
        projected, index = row
        next_states = step(direction, projected, states)
        if lengths is None:
            return tuple(next_states), next_states[0]
        is_inside = expand_dims(index < lengths.astype("i32"), 1)
        masked_states = tuple(where(is_inside, new, old) for new, old in zip(next_states, states, strict=True))
        return masked_states, where(is_inside, next_states[0], 0)

    return scan(
        body, tuple(first), (projections, iota((projections.shape[0],), 0, "i32")), reverse=direction.is_reverse
    )


def _project_state(direction: Direction, state: Tensor) -> Tensor:
    """Return the matmul of `state` with the weights of all gates, plus the bias."""
    return matmul(state, direction.r.transpose()) + direction.r_bias


@op("RNN")
def rnn(call: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None, h: Tensor | None = None) -> Any:  # fmt: skip
    def step(direction: Direction, part: Tensor, states: Sequence[Tensor]) -> Sequence[Tensor]:
        return [direction.activations[0](part + _project_state(direction, states[0]))]

    return _run_directions(call, x, _directions(call, w, r, bias, None, ["Tanh"]), lengths, [h], r.shape[-1], step)


@op("GRU")
def gru(call: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None, h: Tensor | None = None) -> Any:  # fmt: skip
    directions = _directions(call, w, r, bias, None, ["Sigmoid", "Tanh"])
    step = partial(_gru_step, bool(call["linear_before_reset"]))
    return _run_directions(call, x, directions, lengths, [h], r.shape[-1], step)


def _gru_step(is_linear: bool, direction: Direction, projected: Tensor, states: Sequence[Tensor]) -> Sequence[Tensor]:
    """Compute a GRU step; the gates are update, reset, hidden.

    With `is_linear`, the reset gate is applied after the matmul with the state.
    """
    (state,), (gate, hidden_activation) = states, direction.activations
    input_parts = split(projected, 3, -1)
    if is_linear:
        state_parts = split(_project_state(direction, state), 3, -1)
        update, reset = (gate(a + b) for a, b in zip(input_parts[:2], state_parts[:2], strict=True))
        hidden = hidden_activation(input_parts[2] + reset * state_parts[2])
    else:
        r, b = split(direction.r, 3), split(direction.r_bias, 3)
        update, reset = (gate(input_parts[n] + matmul(state, r[n].transpose()) + b[n]) for n in range(2))
        hidden = hidden_activation(input_parts[2] + matmul(reset * state, r[2].transpose()) + b[2])
    return [(1 - update) * hidden + update * state]


@op("LSTM")
def lstm(call: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None, h: Tensor | None = None,
         c: Tensor | None = None, peepholes: Tensor | None = None) -> Any:  # fmt: skip
    directions = _directions(call, w, r, bias, peepholes, ["Sigmoid", "Tanh", "Tanh"])
    step = partial(_lstm_step, bool(call["input_forget"]))
    return _run_directions(call, x, directions, lengths, [h, c], r.shape[-1], step)


def _lstm_step(is_coupled: bool, direction: Direction, projected: Tensor, states: Sequence[Tensor]) -> Sequence[Tensor]:
    """Compute an LSTM step; the gates are input, output, forget, cell.

    With `is_coupled`, the forget gate is 1 minus the input gate.
    """
    state, cell = states
    gate, inner, outer = direction.activations
    input_gate, output_gate, forget_gate, candidate = split(projected + _project_state(direction, state), 4, -1)
    if direction.peepholes:
        input_gate, forget_gate = (
            input_gate + direction.peepholes[0] * cell,
            forget_gate + direction.peepholes[2] * cell,
        )
    input_gate = gate(input_gate)
    next_cell = (1 - input_gate if is_coupled else gate(forget_gate)) * cell + input_gate * inner(candidate)
    output_gate = output_gate + direction.peepholes[1] * next_cell if direction.peepholes else output_gate
    return [gate(output_gate) * outer(next_cell), next_cell]
