"""Donated arguments: their buffers are reused for a result of the same type and sharding.

    func.func @main(%w: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %g: tensor<8xf32> {jax.buffer_donor = true})

`Module.donations` maps each donated input to the output that is its next value, or to None. The buffer of an input that
maps to None is reused for any output that fits; this is decided once the shardings are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Module, TensorType


class Settled(NamedTuple):
    """The result of donation: per donated input the output that reuses its buffer, or the reason why none does."""

    pairs: dict[int, int]
    unused: dict[int, str]


def donation_faults(module: Module) -> list[Diagnostic]:
    """Return an MG0110 diagnostic for each contradictory donation."""
    return [
        Diagnostic("MG0110", text, module.graph.inputs[number].loc if number < len(module.graph.inputs) else None)
        for number, text in _faults(module)
    ]


def _faults(module: Module) -> Iterator[tuple[int, str]]:
    ins, outs = len(module.graph.inputs), len(module.graph.outputs)
    targets = Counter(output for output in module.donations.values() if output is not None)
    for number, output in module.donations.items():
        if not 0 <= number < ins:
            yield number, f"argument {number} is donated, but there are {ins}"
        elif output is None:
            continue
        elif not 0 <= output < outs:
            yield number, f"{_arg_name(module, number)} is donated to result {output}, but there are {outs}"
        elif targets[output] > 1:
            yield number, f"{_arg_name(module, number)} is donated to result {output}, and so is another argument"
        elif (have := _in_type(module, number)) != (want := _out_type(module, output)):
            yield number, f"{_arg_name(module, number)} of type {have} is donated to result {output} of type {want}"


def settled(module: Module) -> Settled:
    """Choose the output that reuses the buffer of each donated input. The shardings of the module must be decided.

    A donated input without a prescribed output gets the first free one of its type and sharding.
    """
    pairs: dict[int, int] = {}
    unused: dict[int, str] = {}
    for number, output in module.donations.items():
        if output is not None and (why := _misfit(module, number, output)):
            unused[number] = why
        elif output is not None:
            pairs[number] = output
    free_outputs = [n for n in range(len(module.graph.outputs)) if n not in module.donations.values()]
    for number in (n for n, output in module.donations.items() if output is None):
        match = next((output for output in free_outputs if not _misfit(module, number, output)), None)
        if match is None:
            input_type, sharding = _in_type(module, number), module.in_shardings[number]
            unused[number] = f"no remaining result is {input_type} with sharding {sharding}"
        else:
            free_outputs.remove(match)
            pairs[number] = match
    return Settled(pairs, unused)


def _misfit(module: Module, number: int, output: int) -> str:
    """Return why the buffer of an input cannot be reused for an output, or "" if it can."""
    have, want = _in_type(module, number), _out_type(module, output)
    if have != want:
        return f"it is {have}, but result {output} is {want}"
    if module.arguments == "global" and not module.in_shardings[number].is_replicated:
        return "it is given as a whole array on each device"
    if module.in_shardings[number] != module.out_shardings[output]:
        return f"its sharding is {module.in_shardings[number]}, but that of result {output} is {module.out_shardings[output]}"
    return ""


def _in_type(module: Module, number: int) -> TensorType:
    return module.in_types[number] if module.in_types else module.graph.inputs[number].type


def _out_type(module: Module, number: int) -> TensorType:
    return module.out_types[number] if module.out_types else module.graph.outputs[number].type


def _arg_name(module: Module, number: int) -> str:
    return f"argument '{module.graph.inputs[number].name or f'arg{number}'}'"
