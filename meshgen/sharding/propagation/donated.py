"""Tie donated arguments to their next values, as loops tie the values that they carry: both have one sharding, so steps can follow each other.

Example, on x=4: `%w : f32[64,32]` annotated [{x}, {}], whose next value is `%v = subtract %w, %u`

    site    input %v -> %w with rule `a b -> a b`: %v is read, and %w made, split over x

The cost of the edge from `subtract` to this site is what it takes to bring the next value into the sharding of the argument.
"""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.ir.graph import Annotation, Module


def tied_outputs(module: Module) -> dict[int, int]:
    """The output of each donated input that has the sharding of the input, by number.

    Not tied are inputs that are returned as they are, and inputs whose required annotation is not that of the output.
    """
    graph, given = module.graph, set(module.graph.inputs)
    return {
        number: output
        for number, output in module.donations.items()
        if output is not None and graph.outputs[output] not in given and _agree(*_annotations(module, number, output))
    }


def untied_outputs(module: Module) -> list[int]:
    """The outputs, by number, that have a site of their own."""
    tied = {*tied_outputs(module).values()}
    return [number for number in range(len(module.graph.outputs)) if number not in tied]


def joint_annotations(module: Module, tied: Mapping[int, int]) -> list[Annotation | None]:
    """The annotations of the inputs; of a tied one that of its output where only the output is required to have one, or has one."""
    found = list(module.in_annotations)
    for number, output in tied.items():
        own, other = _annotations(module, number, output)
        if other is not None and (own is None or (other.required and not own.required)):
            found += [None] * (number + 1 - len(found))
            found[number] = other
    return found


def _annotations(module: Module, number: int, output: int) -> tuple[Annotation | None, Annotation | None]:
    ins, outs = module.in_annotations, module.out_annotations
    return ins[number] if number < len(ins) else None, outs[output] if output < len(outs) else None


def _agree(own: Annotation | None, other: Annotation | None) -> bool:
    """Whether no two required annotations differ."""
    if own is None or other is None or not (own.required and other.required):
        return True
    return (own.sharding, any(own.open_dims)) == (other.sharding, any(other.open_dims))
