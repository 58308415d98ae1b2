"""Print a whole program in upstream's dialects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Annotation, Module, Node, Value
from meshgen.mlir.literals import one_or_list, symbol
from meshgen.mlir.printer import tensor_text
from meshgen.mlir.shard.grid import grid_text
from meshgen.mlir.upstream import (
    control,
    devices,
    elementwise,
    lookup,
    movement,
    reshape,
    shardings,
    structured,
    windows,
)
from meshgen.mlir.upstream.element_types import signless
from meshgen.mlir.upstream.inexpressible import PARTIAL_SUMS, Inexpressible
from meshgen.mlir.upstream.printer import PLANNED, UpstreamPrinter, Write
from meshgen.mlir.upstream.shardings import attributes_of_annotation
from meshgen.spec import Sharding

STAGES = ("import", *PLANNED, "partition")
WRITERS: dict[str, Write] = {
    **elementwise.WRITERS,
    **structured.WRITERS,
    **reshape.WRITERS,
    **movement.WRITERS,
    **windows.WRITERS,
    **lookup.WRITERS,
    **control.WRITERS,
    **shardings.WRITERS,
    **devices.WRITERS,
}


def print_upstream(module: Module) -> str:
    """Return the text of a program in the dialects of LLVM 22, where operations state the shardings.

    At stage `import`, the text has the user's annotations. From `propagate` to `optimize`, every operand and result is
    annotated with the sharding that propagation chose. At stage `partition`, the text is the per-device program.
    Donations and the reasons for collectives are omitted.

    Raises:
        ProgramError: MG0103, with every node that cannot be expressed.
    """
    if module.stage not in STAGES or module.parts:
        subject = f"a program at stage '{module.stage}'" if not module.parts else "a program in parts, one per mesh"
        message = f"{subject} cannot be expressed in upstream's dialects"
        raise ProgramError(Diagnostic("MG0103", message, hint=f"print it at one of the stages {', '.join(STAGES)}"))
    printer = UpstreamPrinter(module, WRITERS)
    function = _function(printer)
    if printer.faults:
        raise ProgramError(*printer.faults)
    grids = [grid_text(mesh) for mesh in module.meshes or (module.mesh,) if mesh.axes]
    return printer.newline.join(["module {", *grids, function]) + "\n}\n"


def _function(printer: UpstreamPrinter) -> str:
    graph = printer.module.graph
    printer.enter(graph)
    arguments = ", ".join(f"{printer.define(value)}: {tensor_text(value.type)}" for value in graph.inputs)
    types = [tensor_text(value.type) for value in graph.outputs]

    def lines() -> None:
        for index, value in enumerate(graph.inputs):
            printer.guarded(f"the sharding of '{value.name}'", value.loc, partial(_begin_argument, printer, index))
        printer.write_nodes(graph)
        names = [_end_result(printer, index) for index in range(len(graph.outputs))]
        printer.emit(f"return {', '.join(names)} : {', '.join(types)}" if names else "return")

    ends = f" -> {one_or_list(types)}" if types else ""
    return f"func.func public {symbol(graph.name)}({arguments}){ends} {printer.scope(lines)}"


def _begin_argument(printer: UpstreamPrinter, index: int) -> None:
    """Annotate an argument with its sharding, unless a node of the program does, and cast it to the signless type."""
    module, value = printer.module, printer.module.graph.inputs[index]
    target = signless(value.type)
    spec = _planned_annotation(module, module.in_shardings, index) or _user_annotation(
        module, module.in_annotations, index
    )
    is_annotated = any(_is_annotation(module, node, spec) and node.operands[0] is value for node in module.graph.nodes)
    if spec is not None and (not is_annotated or target != value.type):
        printer.share_name(value, _annotated(printer, printer.name(value), value, spec, for_users=False))
    if target != value.type:
        text = f"tensor.bitcast {printer.name(value)} : {tensor_text(value.type)} to {tensor_text(target)}"
        printer.share_name(value, printer.temporary(text))


def _end_result(printer: UpstreamPrinter, index: int) -> str:
    """Return the name of a result after annotating it with its sharding, unless a node of the program does.

    The annotation is for users: the producer may then compute another sharding, for example a partial sum.
    """
    module, value = printer.module, printer.module.graph.outputs[index]
    names = [printer.name(value)]
    if signless(value.type) != value.type:
        text = f"tensor.bitcast {names[0]} : {printer.type(value)} to {tensor_text(value.type)}"
        names.append(printer.temporary(text))
    spec = _planned_annotation(module, module.out_shardings, index) or _user_annotation(
        module, module.out_annotations, index
    )
    is_annotated = any(_is_annotation(module, node, spec) and node.result is value for node in module.graph.nodes)
    if spec is not None and not is_annotated:

        def annotate() -> None:
            names.append(_annotated(printer, names[-1], value, spec, for_users=True))

        printer.guarded(f"the sharding of result {index}", value.loc, annotate)
    return names[-1]


def _annotated(printer: UpstreamPrinter, name: str, value: Value, spec: Annotation, *, for_users: bool) -> str:
    if spec.sharding.partial:
        raise Inexpressible(PARTIAL_SUMS)
    attributes = attributes_of_annotation(spec.required, spec.open_dims)
    return printer.shard(name, value.type, spec.sharding, value.name, for_users=for_users, attributes=attributes)


def _planned_annotation(module: Module, shardings: Sequence[Sharding], index: int) -> Annotation | None:
    return Annotation(shardings[index]) if module.stage in PLANNED else None


def _user_annotation(module: Module, table: Sequence[Annotation | None], index: int) -> Annotation | None:
    return table[index] if module.stage == "import" and index < len(table) else None


def _is_annotation(module: Module, node: Node, spec: Annotation | None) -> bool:
    return (
        module.stage == "import"
        and spec is not None
        and node.op == "annotate"
        and node.attrs.as_result
        and node.attrs.sharding == spec.sharding
    )
