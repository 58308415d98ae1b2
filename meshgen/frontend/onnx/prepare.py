"""What is done to a model before its nodes are imported: checked, without its weights, calls of functions replaced by their bodies."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from meshgen.budget import require_operations
from meshgen.errors import Diagnostic, Location, ProgramError
from meshgen.frontend.onnx.files import onnx_package
from meshgen.frontend.onnx.ops.table import MICROSOFT, TABLE

_DOMAINS = {"ai.onnx": ""}


def domain_of(name: str) -> str:
    """A domain by the name that nodes use for it."""
    return _DOMAINS.get(name, name)


def nodes_of(graph: Any, *, with_branches: bool = True) -> Iterator[Any]:
    """All nodes of a graph, also those in attributes; those in branches of `If` only if asked for."""
    for node in graph.node:
        yield node
        if with_branches or node.op_type != "If":
            for attribute in node.attribute:
                for each in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                    yield from nodes_of(each, with_branches=with_branches)


def prepared(model: Any, file: str) -> tuple[Any, dict[str, Any]]:
    """The model with the bodies of its functions in place of their calls, and its initializers by name, which are not in it any more.

    Raises ProgramError MG0104 for what the onnx package finds malformed, MG0102 for a model without results.
    """
    onnx = onnx_package()
    if faults := [*_opset_faults(model, onnx)]:
        hint = "convert the model with onnx.version_converter, or install a newer onnx package"
        raise ProgramError(*(Diagnostic("MG0104", text, Location(file, 0), hint=hint) for text in faults))
    initializers = {each.name: each for each in model.graph.initializer}
    if model.graph.sparse_initializer:
        raise _model_fault("MG0103", "sparse initializers are not supported", file)
    if not model.graph.output:
        raise _model_fault("MG0102", "the model has no outputs", file)
    try:
        light = _light(model, onnx)
        onnx.checker.check_model(_typed(light, onnx))
    except Exception as error:  # ValidationError, and what malformed protobufs raise
        raise _model_fault("MG0104", f"the model is malformed: {_one_line(error)}", file) from error
    try:
        _refuse_many_calls(light, file)
        return (onnx.inliner.inline_local_functions(light) if light.functions else light), initializers
    except ProgramError:
        raise
    except Exception as error:
        raise _model_fault("MG0104", f"a function of the model cannot be inlined: {_one_line(error)}", file) from error


def _opset_faults(model: Any, onnx: Any) -> Iterator[str]:
    """Opsets of the standard that do not exist, or that the installed package does not know yet."""
    newest = {
        "": max(row[2] for row in onnx.helper.VERSION_TABLE),
        "ai.onnx.ml": max(row[3] for row in onnx.helper.VERSION_TABLE),
    }
    places = [
        ("the model", model.opset_import),
        *((f"function {each.name}", each.opset_import) for each in model.functions),
    ]
    for place, imports in places:
        versions: dict[str, int] = {}
        for each in imports:
            domain = domain_of(each.domain)
            if domain in newest and not 1 <= each.version <= newest[domain]:
                called = domain or "ai.onnx"
                yield f"{place} is of opset {each.version} of {called}, but onnx {onnx.__version__} knows 1 to {newest[domain]}"
            if versions.setdefault(domain, each.version) != each.version:
                yield f"{place} imports opsets {versions[domain]} and {each.version} of {domain or 'ai.onnx'}"


def _light(model: Any, onnx: Any) -> Any:
    """A copy of the model in which initializers are inputs."""
    without_initializers = onnx.GraphProto(**_fields(model.graph, "initializer"))
    light = onnx.ModelProto(**_fields(model, "graph"), graph=without_initializers)
    graph, given = light.graph, {each.name for each in model.graph.input}
    for each in model.graph.initializer:
        if each.name not in given:
            graph.input.append(onnx.helper.make_tensor_value_info(each.name, each.data_type, list(each.dims)))
    for node in nodes_of(graph):  # ONNX Runtime writes some of its own operators into the domain of the standard
        if not domain_of(node.domain) and ("", node.op_type) not in TABLE and (MICROSOFT, node.op_type) in TABLE:
            node.domain = MICROSOFT
    if not any(each.domain == MICROSOFT for each in light.opset_import):
        light.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
    return light


def _fields(message: Any, without: str) -> dict[str, Any]:
    return {field.name: value for field, value in message.ListFields() if field.name != without}


def _typed(model: Any, onnx: Any) -> Any:
    """The model with types of all inputs and outputs, which the check of the package wants: those that are missing are of no meaning."""
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    for each in (*typed.graph.input, *typed.graph.output):
        has_type, kind = each.type.WhichOneof("value") is not None, each.type.tensor_type
        if not has_type or (each.type.HasField("tensor_type") and not kind.HasField("shape")):
            kind.elem_type = kind.elem_type or onnx.TensorProto.FLOAT
            kind.shape.SetInParent()
    return typed


def _refuse_many_calls(model: Any, file: str) -> None:
    """Raise ProgramError MG0108 for a model that has too many nodes once its functions are inlined, MG0104 for recursion."""
    functions = {(domain_of(each.domain), each.name, each.overload): each for each in model.functions}
    keys = {key: [_callee(node) for node in nodes_of(each)] for key, each in functions.items()}
    calls = {key: [callee for callee in called if callee in functions] for key, called in keys.items()}
    counts: dict[tuple[str, str, str], int] = {}
    try:
        for key in TopologicalSorter(calls).static_order():
            counts[key] = sum(counts.get(callee, 1) for callee in keys[key])
    except CycleError as error:
        names = " -> ".join(name for _, name, _ in error.args[1])
        raise _model_fault("MG0104", f"functions of the model call themselves: {names}", file) from error
    total = sum(counts.get(_callee(node), 1) for node in nodes_of(model.graph))
    require_operations(total, "the model, with its functions inlined,", Location(file, 0))


def _callee(node: Any) -> tuple[str, str, str]:
    return domain_of(node.domain), node.op_type, node.overload


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _model_fault(code: str, text: str, file: str) -> ProgramError:
    return ProgramError(Diagnostic(code, text, Location(file, 0)))
