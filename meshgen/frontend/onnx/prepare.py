"""Preparation of a model for import: validity checks, removal of initializers, inlining of functions."""

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
    """Return the name that nodes use for an operator domain: the standard domain `ai.onnx` is the empty string."""
    return _DOMAINS.get(name, name)


def nodes_of(graph: Any, *, with_branches: bool = True) -> Iterator[Any]:
    """Yield all nodes of a graph and of its subgraphs. With `with_branches=False`, branches of `If` are skipped."""
    for node in graph.node:
        yield node
        if with_branches or node.op_type != "If":
            for attribute in node.attribute:
                for subgraph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                    yield from nodes_of(subgraph, with_branches=with_branches)


def prepared(model: Any, file: str) -> tuple[Any, dict[str, Any]]:
    """Return the model with inlined functions and without initializers, and the initializers by name.

    Raises:
        ProgramError: MG0102, the model has no outputs; MG0103, sparse initializers; MG0104, the onnx package finds it
            malformed.
    """
    onnx = onnx_package()
    if faults := [*_opset_faults(model, onnx)]:
        hint = "convert the model with onnx.version_converter, or install a newer onnx package"
        raise ProgramError(*(Diagnostic("MG0104", text, Location(file, 0), hint=hint) for text in faults))
    initializers = {initializer.name: initializer for initializer in model.graph.initializer}
    if model.graph.sparse_initializer:
        raise _model_fault("MG0103", "sparse initializers are not supported", file)
    if not model.graph.output:
        raise _model_fault("MG0102", "the model has no outputs", file)
    try:
        light = _with_initializers_as_inputs(model, onnx)
        onnx.checker.check_model(_with_placeholder_types(light, onnx))
    except Exception as error:  # ValidationError, or anything that a malformed protobuf raises.
        raise _model_fault("MG0104", f"the model is malformed: {_one_line(error)}", file) from error
    try:
        _refuse_many_calls(light, file)
        return (onnx.inliner.inline_local_functions(light) if light.functions else light), initializers
    except ProgramError:
        raise
    except Exception as error:
        raise _model_fault("MG0104", f"a function of the model cannot be inlined: {_one_line(error)}", file) from error


def _opset_faults(model: Any, onnx: Any) -> Iterator[str]:
    """Yield a message for each opset that the installed onnx package lacks, and for each domain with two opsets."""
    newest = {
        "": max(row[2] for row in onnx.helper.VERSION_TABLE),
        "ai.onnx.ml": max(row[3] for row in onnx.helper.VERSION_TABLE),
    }
    imports_by_owner = [
        ("the model", model.opset_import),
        *((f"function {item.name}", item.opset_import) for item in model.functions),
    ]
    for owner, imports in imports_by_owner:
        versions: dict[str, int] = {}
        for item in imports:
            domain = domain_of(item.domain)
            if domain in newest and not 1 <= item.version <= newest[domain]:
                domain_name = domain or "ai.onnx"
                yield f"{owner} is of opset {item.version} of {domain_name}, but onnx {onnx.__version__} knows 1 to {newest[domain]}"
            if versions.setdefault(domain, item.version) != item.version:
                yield f"{owner} imports opsets {versions[domain]} and {item.version} of {domain or 'ai.onnx'}"


def _with_initializers_as_inputs(model: Any, onnx: Any) -> Any:
    """Return a copy of the model in which each initializer is an input without a value."""
    without_initializers = onnx.GraphProto(**_fields(model.graph, "initializer"))
    light = onnx.ModelProto(**_fields(model, "graph"), graph=without_initializers)
    graph, input_names = light.graph, {item.name for item in model.graph.input}
    for item in model.graph.initializer:
        if item.name not in input_names:
            graph.input.append(onnx.helper.make_tensor_value_info(item.name, item.data_type, list(item.dims)))
    for node in nodes_of(graph):  # ONNX Runtime writes some of ONNX Runtime's own operators into the standard domain.
        if not domain_of(node.domain) and ("", node.op_type) not in TABLE and (MICROSOFT, node.op_type) in TABLE:
            node.domain = MICROSOFT
    if not any(item.domain == MICROSOFT for item in light.opset_import):
        light.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
    return light


def _fields(message: Any, without: str) -> dict[str, Any]:
    return {field.name: value for field, value in message.ListFields() if field.name != without}


def _with_placeholder_types(model: Any, onnx: Any) -> Any:
    """Return the model with placeholder types for untyped inputs and outputs, because onnx's checker requires types."""
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    for value_info in (*typed.graph.input, *typed.graph.output):
        has_type, tensor_type = value_info.type.WhichOneof("value") is not None, value_info.type.tensor_type
        if not has_type or (value_info.type.HasField("tensor_type") and not tensor_type.HasField("shape")):
            tensor_type.elem_type = tensor_type.elem_type or onnx.TensorProto.FLOAT
            tensor_type.shape.SetInParent()
    return typed


def _refuse_many_calls(model: Any, file: str) -> None:
    """Raise ProgramError if inlining the model's functions would give too many nodes.

    Raises:
        ProgramError: MG0108, too many nodes; MG0104, a function calls itself.
    """
    functions = {
        (domain_of(function.domain), function.name, function.overload): function for function in model.functions
    }
    callees = {key: [_callee(node) for node in nodes_of(function)] for key, function in functions.items()}
    calls = {key: [callee for callee in callee_keys if callee in functions] for key, callee_keys in callees.items()}
    counts: dict[tuple[str, str, str], int] = {}
    try:
        for key in TopologicalSorter(calls).static_order():
            counts[key] = sum(counts.get(callee, 1) for callee in callees[key])
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
