"""Donated arguments: the buffer of a donated input is reused for an output of the same type and sharding.

    func.func @main(%w: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %g: tensor<8xf32> {jax.buffer_donor = true})

`Module.donations` maps each donated input to the output that reuses its buffer, or to None. For None, meshgen chooses
any output of equal type and sharding, once the shardings are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Module, TensorType


class Settled(NamedTuple):
    """The outcome of donation for each donated input.

    Attributes:
        pairs: input index -> index of the output that reuses its buffer.
        unused: input index -> the reason why no output reuses its buffer.
    """

    pairs: dict[int, int]
    unused: dict[int, str]


def donation_faults(module: Module) -> list[Diagnostic]:
    """Return an MG0110 diagnostic for each contradictory donation."""
    return [
        Diagnostic("MG0110", text, module.graph.inputs[index].loc if index < len(module.graph.inputs) else None)
        for index, text in _faults(module)
    ]


def _faults(module: Module) -> Iterator[tuple[int, str]]:
    ins, outs = len(module.graph.inputs), len(module.graph.outputs)
    targets = Counter(output for output in module.donations.values() if output is not None)
    for index, output in module.donations.items():
        if not 0 <= index < ins:
            yield index, f"argument {index} is donated, but there are {ins}"
        elif output is None:
            continue
        elif not 0 <= output < outs:
            yield index, f"{_arg_name(module, index)} is donated to result {output}, but there are {outs}"
        elif targets[output] > 1:
            yield index, f"{_arg_name(module, index)} is donated to result {output}, and so is another argument"
        elif (input_type := _in_type(module, index)) != (output_type := _out_type(module, output)):
            yield (
                index,
                f"{_arg_name(module, index)} of type {input_type} is donated to result {output} of type {output_type}",
            )


def settled(module: Module) -> Settled:
    """Choose the output that reuses the buffer of each donated input. The module must have shardings.

    A donated input without a prescribed output gets the first remaining output of its type and sharding.
    """
    pairs: dict[int, int] = {}
    unused: dict[int, str] = {}
    for index, output in module.donations.items():
        if output is not None and (why := _misfit(module, index, output)):
            unused[index] = why
        elif output is not None:
            pairs[index] = output
    free_outputs = [n for n in range(len(module.graph.outputs)) if n not in module.donations.values()]
    for index in (n for n, output in module.donations.items() if output is None):
        match = next((output for output in free_outputs if not _misfit(module, index, output)), None)
        if match is None:
            input_type, sharding = _in_type(module, index), module.in_shardings[index]
            unused[index] = f"no remaining result is {input_type} with sharding {sharding}"
        else:
            free_outputs.remove(match)
            pairs[index] = match
    return Settled(pairs, unused)


def _misfit(module: Module, index: int, output: int) -> str:
    """Return why the buffer of an input cannot be reused for an output, or "" if it can."""
    input_type, output_type = _in_type(module, index), _out_type(module, output)
    if input_type != output_type:
        return f"it is {input_type}, but result {output} is {output_type}"
    if module.arguments == "global" and not module.in_shardings[index].is_replicated:
        return "each device gets the entire array"
    if module.in_shardings[index] != module.out_shardings[output]:
        return f"its sharding is {module.in_shardings[index]}, but that of result {output} is {module.out_shardings[output]}"
    return ""


def _in_type(module: Module, index: int) -> TensorType:
    return module.in_types[index] if module.in_types else module.graph.inputs[index].type


def _out_type(module: Module, index: int) -> TensorType:
    return module.out_types[index] if module.out_types else module.graph.outputs[index].type


def _arg_name(module: Module, index: int) -> str:
    return f"argument '{module.graph.inputs[index].name or f'arg{index}'}'"
