"""Tie each donated argument to its next value: both get one sharding, so that consecutive steps need no reshard.

Example, on x=4: `%w : f32[64,32]` annotated [{x}, {}], whose next value is `%v = subtract %w, %u`

    site    input %v -> %w with rule `a b -> a b`: x splits dim 0 of both

The edge from `subtract` to this site costs the reshard of the next value into the sharding of the argument.
"""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.ir.graph import Annotation, Module


def tied_outputs(module: Module) -> dict[int, int]:
    """Return, for each donated input, the index of the output that must have the sharding of the input.

    Inputs that the program returns unchanged are not tied, nor are inputs whose required annotation differs from the
    output's.
    """
    graph, inputs = module.graph, set(module.graph.inputs)
    return {
        index: output
        for index, output in module.donations.items()
        if output is not None and graph.outputs[output] not in inputs and _agree(*_annotations(module, index, output))
    }


def untied_outputs(module: Module) -> list[int]:
    """Return the indices of the outputs that are not tied to a donated input, so that each has a site of its own."""
    tied = {*tied_outputs(module).values()}
    return [index for index in range(len(module.graph.outputs)) if index not in tied]


def merged_annotations(module: Module, tied: Mapping[int, int]) -> list[Annotation | None]:
    """Return the annotations of the inputs, including those that tied inputs take over.

    A tied input takes the annotation of its output if only the output has one, or if only the output's annotation is
    required.
    """
    annotations = list(module.in_annotations)
    for index, output in tied.items():
        input_annotation, output_annotation = _annotations(module, index, output)
        if output_annotation is not None and (
            input_annotation is None or (output_annotation.required and not input_annotation.required)
        ):
            annotations += [None] * (index + 1 - len(annotations))
            annotations[index] = output_annotation
    return annotations


def _annotations(module: Module, index: int, output: int) -> tuple[Annotation | None, Annotation | None]:
    ins, outs = module.in_annotations, module.out_annotations
    return ins[index] if index < len(ins) else None, outs[output] if output < len(outs) else None


def _agree(input_annotation: Annotation | None, output_annotation: Annotation | None) -> bool:
    """Whether at most one of the annotations is required, or both are equal."""
    if (
        input_annotation is None
        or output_annotation is None
        or not (input_annotation.required and output_annotation.required)
    ):
        return True
    return (input_annotation.sharding, any(input_annotation.open_dims)) == (
        output_annotation.sharding,
        any(output_annotation.open_dims),
    )
