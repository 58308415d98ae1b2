"""PyTorch recurrent layers: one matmul for the inputs of all steps, then a loop over the steps.

The weights of all gates are stacked along the first dim: `weight_ih` is [gates * hidden, inputs], and `weight_hh` is
[gates * hidden, hidden].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.frontend.torch.ops.matmul import linear_
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.tracer import control_flow, elementwise, nn
from meshgen.frontend.tracer.joining import concatenate, flip, split, stack
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Tensor

State = tuple[Tensor, ...]


@dataclass(frozen=True)
class _Weights:
    """The parameters of one layer in one direction; `projection` maps the hidden state of an LSTM to a smaller one."""

    inputs: Tensor
    hidden: Tensor
    input_bias: Tensor | None = None
    hidden_bias: Tensor | None = None
    projection: Tensor | None = None


# Computes one step: (products of inputs and weights, state, weights) -> next state.
# The first tensor of the state is the output.
Cell = Callable[[Tensor, State, _Weights], State]


def _rnn_cell(activation: Callable[[Tensor], Tensor]) -> Cell:
    def step(x: Tensor, state: State, weights: _Weights) -> State:
        return (activation(x + linear_(state[0], weights.hidden, weights.hidden_bias)),)

    return step


def _lstm(x: Tensor, state: State, weights: _Weights) -> State:
    hidden_before, cell = state
    input_gate, forget_gate, candidate, output_gate = split(
        x + linear_(hidden_before, weights.hidden, weights.hidden_bias), 4, -1
    )
    cell = nn.sigmoid(forget_gate) * cell + nn.sigmoid(input_gate) * elementwise.tanh(candidate)
    hidden = nn.sigmoid(output_gate) * elementwise.tanh(cell)
    return (hidden if weights.projection is None else linear_(hidden, weights.projection)), cell


def _gru(x: Tensor, state: State, weights: _Weights) -> State:
    (hidden_before,) = state
    reset, update_gate, candidate = split(x, 3, -1)
    reset_h, update_h, candidate_h = split(linear_(hidden_before, weights.hidden, weights.hidden_bias), 3, -1)
    update_gate = nn.sigmoid(update_gate + update_h)
    candidate = elementwise.tanh(candidate + nn.sigmoid(reset + reset_h) * candidate_h)
    return ((1 - update_gate) * candidate + update_gate * hidden_before,)


def _direction(cell: Cell, x: Tensor, state: State, weights: _Weights, reverse: bool) -> tuple[Tensor, State]:
    """Run one layer in one direction: x[steps, ..., inputs] -> [steps, ..., hidden].

    Returns the outputs and the last state.
    """
    projected = linear_(x, weights.inputs, weights.input_bias)

    def step(state_now: State, row: Tensor) -> tuple[State, Tensor]:
        state_now = cell(row, state_now, weights)
        return state_now, state_now[0]

    last, outputs = control_flow.scan(step, state, flip(projected, 0) if reverse else projected)
    return flip(outputs, 0) if reverse else outputs, last


def _layers(cell: Cell, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int,
            dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """Run a stack of layers.

    Returns the outputs of the last layer, and the last states of all layers and directions, stacked.
    """
    if dropout and train:
        refuse("dropout draws random numbers between layers", "export the model in eval mode", "MG0103")
    directions = 2 if bidirectional else 1
    params_per_direction = len(params) // (num_layers * directions)
    last_states: list[State] = []
    x = x.swapaxes(0, 1) if batch_first else x
    for layer in range(num_layers):
        outputs: list[Tensor] = []
        for index in range(layer * directions, (layer + 1) * directions):
            weights = _weights(params[index * params_per_direction : (index + 1) * params_per_direction], has_biases)
            rows, last = _direction(
                cell, x, tuple(tensors[index] for tensors in states), weights, index % directions == 1
            )
            outputs.append(rows)
            last_states.append(last)
        x = concatenate(outputs, -1) if bidirectional else outputs[0]
    return x.swapaxes(0, 1) if batch_first else x, *(stack(tensors) for tensors in zip(*last_states, strict=True))


def _weights(params: Sequence[Tensor], has_biases: bool) -> _Weights:
    """Convert torch's list of the parameters of one layer and direction to `_Weights`."""
    inputs, hidden, *rest = params
    input_bias, hidden_bias = (rest.pop(0), rest.pop(0)) if has_biases else (None, None)
    return _Weights(inputs, hidden, input_bias, hidden_bias, rest[0] if rest else None)


@aten("lstm.input")
def lstm(x: Tensor, states: Sequence[Tensor], *rest: Any) -> tuple[Tensor, ...]:
    return _layers(_lstm, x, states, *rest)


@aten("lstm_cell")
def lstm_cell(x: Tensor, states: Sequence[Tensor], inputs: Tensor, hidden: Tensor, *biases: Tensor | None) -> State:
    weights = _Weights(inputs, hidden, *biases)
    return _lstm(linear_(x, inputs, weights.input_bias), (states[0], states[1]), weights)


def _enter(layer: str, name: str, cell: Cell) -> None:
    """Register the operations for a layer and for a single step of it. The state of the cell is one tensor."""

    def run_cell(x: Tensor, state: Tensor, inputs: Tensor, hidden: Tensor, *biases: Tensor | None) -> Tensor:
        weights = _Weights(inputs, hidden, *biases)
        return cell(linear_(x, inputs, weights.input_bias), (state,), weights)[0]

    enter_rows({layer: lambda x, state, *rest: _layers(cell, x, [state], *rest), name: run_cell})


_enter("gru.input", "gru_cell", _gru)
_enter("rnn_tanh.input", "rnn_tanh_cell", _rnn_cell(elementwise.tanh))
_enter("rnn_relu.input", "rnn_relu_cell", _rnn_cell(nn.relu))
