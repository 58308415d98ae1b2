"""PyTorch's recurrent layers: a loop over the steps per layer and direction, after one product of the inputs of all steps.

Rows of the weights are those of the gates one after the other: `weight_ih` [gates * hidden, inputs], `weight_hh` [gates * hidden, hidden].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.frontend.torch.ops.products import linear_
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.tracer import control_flow, elementwise, nn
from meshgen.frontend.tracer.joining import concatenate, flip, split, stack
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Tensor

State = tuple[Tensor, ...]


@dataclass(frozen=True)
class _Weights:
    """The weights of one layer in one direction."""

    inputs: Tensor
    hidden: Tensor
    input_bias: Tensor | None = None
    hidden_bias: Tensor | None = None
    projection: Tensor | None = None


# The next state of a cell from the product of its inputs, its state and its weights; the first of a state is what the cell gives.
Cell = Callable[[Tensor, State, _Weights], State]


def _rnn_cell(activation: Callable[[Tensor], Tensor]) -> Cell:
    def step(x: Tensor, state: State, weights: _Weights) -> State:
        return (activation(x + linear_(state[0], weights.hidden, weights.hidden_bias)),)

    return step


def _lstm(x: Tensor, state: State, weights: _Weights) -> State:
    before, cell = state
    taken, kept, new, shown = split(x + linear_(before, weights.hidden, weights.hidden_bias), 4, -1)
    cell = nn.sigmoid(kept) * cell + nn.sigmoid(taken) * elementwise.tanh(new)
    hidden = nn.sigmoid(shown) * elementwise.tanh(cell)
    return (hidden if weights.projection is None else linear_(hidden, weights.projection)), cell


def _gru(x: Tensor, state: State, weights: _Weights) -> State:
    (before,) = state
    reset, kept, new = split(x, 3, -1)
    reset_h, kept_h, new_h = split(linear_(before, weights.hidden, weights.hidden_bias), 3, -1)
    kept = nn.sigmoid(kept + kept_h)
    new = elementwise.tanh(new + nn.sigmoid(reset + reset_h) * new_h)
    return ((1 - kept) * new + kept * before,)


def _direction(cell: Cell, x: Tensor, state: State, weights: _Weights, reverse: bool) -> tuple[Tensor, State]:
    """What a layer gives in one direction, x[steps, ..., inputs] -> [steps, ..., hidden], and its last state."""
    product = linear_(x, weights.inputs, weights.input_bias)

    def step(held: State, row: Tensor) -> tuple[State, Tensor]:
        held = cell(row, held, weights)
        return held, held[0]

    last, rows = control_flow.scan(step, state, flip(product, 0) if reverse else product)
    return flip(rows, 0) if reverse else rows, last


def _layers(cell: Cell, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int,
            dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """What the last layer gives, and the last states of all layers and directions as stacks."""
    if dropout and train:
        refuse("dropout draws random numbers between layers", "export the model in eval mode", "MG0103")
    directions = 2 if bidirectional else 1
    size = len(params) // (num_layers * directions)
    lasts: list[State] = []
    x = x.swapaxes(0, 1) if batch_first else x
    for layer in range(num_layers):
        found: list[Tensor] = []
        for number in range(layer * directions, (layer + 1) * directions):
            weights = _weights(params[number * size : (number + 1) * size], has_biases)
            rows, last = _direction(cell, x, tuple(each[number] for each in states), weights, number % directions == 1)
            found.append(rows)
            lasts.append(last)
        x = concatenate(found, -1) if bidirectional else found[0]
    return x.swapaxes(0, 1) if batch_first else x, *(stack(each) for each in zip(*lasts, strict=True))


def _weights(params: Sequence[Tensor], has_biases: bool) -> _Weights:
    """Those of one layer in one direction, in the order in which torch has them."""
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
    """Register the layer and the cell of a kind with one tensor as its state."""

    def once(x: Tensor, state: Tensor, inputs: Tensor, hidden: Tensor, *biases: Tensor | None) -> Tensor:
        weights = _Weights(inputs, hidden, *biases)
        return cell(linear_(x, inputs, weights.input_bias), (state,), weights)[0]

    enter_rows({layer: lambda x, state, *rest: _layers(cell, x, [state], *rest), name: once})


_enter("gru.input", "gru_cell", _gru)
_enter("rnn_tanh.input", "rnn_tanh_cell", _rnn_cell(elementwise.tanh))
_enter("rnn_relu.input", "rnn_relu_cell", _rnn_cell(nn.relu))
