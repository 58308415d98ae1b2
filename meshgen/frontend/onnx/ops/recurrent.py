"""LSTM, GRU and RNN, as a scan over the rows of time for each direction. Products with the input are done for all rows at once."""

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
    """One direction: weights of the input [g h, i] and of the state [g h, h], biases of both [g h], and activations."""

    w: Tensor
    r: Tensor
    w_bias: Tensor
    r_bias: Tensor
    activations: Sequence[Activation]
    peepholes: Sequence[Tensor]
    is_reverse: bool


# The next states of a step, of which the first is its result: (direction, the input's part [b, g h], states).
Step = Callable[[Direction, Tensor, Sequence[Tensor]], Sequence[Tensor]]


def _directions(call: Call, w: Tensor, r: Tensor, bias: Tensor | None, peepholes: Tensor | None, names: Sequence[str]) -> list[Direction]:  # fmt: skip
    count, wide = w.shape[:2]
    hidden, expected = r.shape[-1], 2 if call["direction"] == "bidirectional" else 1
    if call["hidden_size"] not in (None, hidden):
        refuse(f"hidden_size is {call['hidden_size']}, but the weights of the state have {hidden} columns")
    if count != expected:
        refuse(f"the weights have {count} directions, but direction is '{call['direction']}'")
    biases = zeros((count, 2 * wide), w.type.dtype) if bias is None else bias
    given = [each.lower() for each in call["activations"] or list(names) * count]
    if unknown := [each for each in given if each not in RECURRENT]:
        refuse(f"activation '{unknown[0]}' is not supported")
    alphas, betas = list(call["activation_alpha"] or []), list(call["activation_beta"] or [])
    functions = [_activation(name, alphas, betas, call["clip"]) for name in given]
    found: list[Direction] = []
    for d in range(count):
        ours, theirs = split(biases[d], 2)
        held = [] if peepholes is None else split(peepholes[d], 3)
        own = functions[d * len(names) : (d + 1) * len(names)]
        is_reverse = d == 1 or call["direction"] == "reverse"
        found.append(Direction(w[d], r[d], ours, theirs, own, held, is_reverse))
    return found


def _activation(name: str, alphas: list[float], betas: list[float], most: float | None) -> Activation:
    """An activation with its own numbers, which are taken from the lists, of a clipped operand."""
    function, defaults = RECURRENT[name]
    numbers = [held.pop(0) if held else default for held, default in zip((alphas, betas), defaults, strict=False)]
    return lambda x: function(x if most is None else clip(x, -most, most), *numbers)


def _run(call: Call, x: Tensor, directions: Sequence[Direction], lengths: Tensor | None, initial: Sequence[Tensor | None], hidden: int, step: Step) -> Any:  # fmt: skip
    """All rows of x [t, b, i], then the last states: [t, d, b, h], and [d, b, h] each; batches are first where `layout` is 1."""
    rows = moveaxis(x, 0, 1) if call["layout"] else x
    batch = rows.shape[1]
    results: list[Tensor] = []
    lasts: list[Sequence[Tensor]] = []
    for d, each in enumerate(directions):
        first = [zeros((batch, hidden), rows.type.dtype) if given is None else
                 given[(slice(None), d) if call["layout"] else d] for given in initial]  # fmt: skip
        wide = matmul(rows, each.w.transpose()) + each.w_bias
        last, stacked = _scanned(each, wide, lengths, first, step)
        results.append(stacked)
        lasts.append(last)
    whole = stack(results, 1)
    states = [stack(column, 0) for column in zip(*lasts, strict=True)]
    if call["layout"]:
        whole, states = whole.transpose(2, 0, 1, 3), [moveaxis(state, 0, 1) for state in states]
    return whole, *states


def _scanned(direction: Direction, wide: Tensor, lengths: Tensor | None, first: Sequence[Tensor], step: Step) -> Any:
    """The last states, and the results of all rows; rows after a batch's end are zeros and leave its states as they are."""

    def body(states: Any, row: Any) -> Any:
        part, number = row
        after = step(direction, part, states)
        if lengths is None:
            return tuple(after), after[0]
        is_inside = expand_dims(number < lengths.astype("i32"), 1)
        kept = tuple(where(is_inside, new, old) for new, old in zip(after, states, strict=True))
        return kept, where(is_inside, after[0], 0)

    return scan(body, tuple(first), (wide, iota((wide.shape[0],), 0, "i32")), reverse=direction.is_reverse)


def _through(direction: Direction, state: Tensor) -> Tensor:
    """The state's part of all gates."""
    return matmul(state, direction.r.transpose()) + direction.r_bias


@op("RNN")
def rnn(call: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None, h: Tensor | None = None) -> Any:  # fmt: skip
    def step(direction: Direction, part: Tensor, states: Sequence[Tensor]) -> Sequence[Tensor]:
        return [direction.activations[0](part + _through(direction, states[0]))]

    return _run(call, x, _directions(call, w, r, bias, None, ["Tanh"]), lengths, [h], r.shape[-1], step)


@op("GRU")
def gru(call: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None, h: Tensor | None = None) -> Any:  # fmt: skip
    directions = _directions(call, w, r, bias, None, ["Sigmoid", "Tanh"])
    step = partial(_gru_step, bool(call["linear_before_reset"]))
    return _run(call, x, directions, lengths, [h], r.shape[-1], step)


def _gru_step(is_linear: bool, direction: Direction, part: Tensor, states: Sequence[Tensor]) -> Sequence[Tensor]:
    """Gates: update, reset, hidden. `is_linear`: the reset gate is applied after the product with the state."""
    (state,), (gate, other) = states, direction.activations
    ours = split(part, 3, -1)
    if is_linear:
        theirs = split(_through(direction, state), 3, -1)
        update, reset = (gate(a + b) for a, b in zip(ours[:2], theirs[:2], strict=True))
        hidden = other(ours[2] + reset * theirs[2])
    else:
        r, b = split(direction.r, 3), split(direction.r_bias, 3)
        update, reset = (gate(ours[n] + matmul(state, r[n].transpose()) + b[n]) for n in range(2))
        hidden = other(ours[2] + matmul(reset * state, r[2].transpose()) + b[2])
    return [(1 - update) * hidden + update * state]


@op("LSTM")
def lstm(call: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None, h: Tensor | None = None,
         c: Tensor | None = None, peepholes: Tensor | None = None) -> Any:  # fmt: skip
    directions = _directions(call, w, r, bias, peepholes, ["Sigmoid", "Tanh", "Tanh"])
    step = partial(_lstm_step, bool(call["input_forget"]))
    return _run(call, x, directions, lengths, [h, c], r.shape[-1], step)


def _lstm_step(is_coupled: bool, direction: Direction, part: Tensor, states: Sequence[Tensor]) -> Sequence[Tensor]:
    """Gates: input, output, forget, cell. `is_coupled`: what is forgotten is what is not taken in."""
    state, cell = states
    gate, inner, outer = direction.activations
    taken, shown, forgotten, fresh = split(part + _through(direction, state), 4, -1)
    if direction.peepholes:
        taken, forgotten = taken + direction.peepholes[0] * cell, forgotten + direction.peepholes[2] * cell
    taken = gate(taken)
    after = (1 - taken if is_coupled else gate(forgotten)) * cell + taken * inner(fresh)
    shown = shown + direction.peepholes[1] * after if direction.peepholes else shown
    return [gate(shown) * outer(after), after]
