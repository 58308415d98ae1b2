"""Import of a model's nodes, in order, as operations on traced tensors.

Values that are known at compile time (shapes, and anything computed from constants) are NumPy arrays. A node whose
operands are all arrays is constant-folded with the evaluator of the compiler. The errors of all nodes are reported
together; nodes that use results of a failed node are skipped.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from meshgen.budget import require_operations
from meshgen.errors import Diagnostic, Location, MeshgenError, ProgramError
from meshgen.frontend.onnx.composite_bodies import body_of, has_body
from meshgen.frontend.onnx.constant_hints import remedy, with_hint
from meshgen.frontend.onnx.declared import HINT, Declared, contradiction, declared_types, type_of
from meshgen.frontend.onnx.files import Initializers, array_of_proto
from meshgen.frontend.onnx.ops.table import TABLE, Array, Call, DataOperandError, Elements, Operator, array_of
from meshgen.frontend.onnx.ops.unsupported import reason
from meshgen.frontend.onnx.opset_conversion import FIRST, append_newer_operands, convert_to_opset_7
from meshgen.frontend.onnx.prepare import domain_of, nodes_of
from meshgen.frontend.onnx.schemas import attribute_value, schema_of
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import Trace, current, refuse
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.frontend.tracer.trace_regions import recording
from meshgen.ir.graph import Graph, TensorType, Value, dtype_name
from meshgen.ir.regions import all_nodes
from meshgen.ops.evaluate.evaluator import evaluate

# Elements of the largest constant-folded result. Chosen: larger results stay operations and need no literal in the
# program.
MAX_FOLDED_ELEMENTS = 1 << 16
# Elements of the largest intermediate value of a constant-folded node. Chosen to bound memory and import time.
MAX_INTERMEDIATE_ELEMENTS = 1 << 22
_PYTHON_LINE = re.compile(r'File "([^"]+)", line ([0-9]{1,9})')


class Weight:
    """An initializer, which can be read as an array and can become an input of the program.

    Operators that need the elements at compile time read the array. The first other operator that uses the initializer
    makes it an input.
    """

    def __init__(self, name: str, initializers: Initializers, root: Trace) -> None:
        self.name, self._initializers, self._root = name, initializers, root
        self._tensor: Tensor | None = None

    @property
    def array(self) -> Array:
        return self._initializers[self.name]

    @property
    def type(self) -> TensorType:
        return self._initializers.type_of(self.name)

    def as_tensor(self) -> Tensor:
        if self._tensor is None:
            array = self.array
            value = Value(TensorType(array.shape, dtype_name(array.dtype)), self.name)
            with recording(self._root):
                self._root.graph.inputs.append(value)
                self._tensor = Tensor(value)
        return self._tensor


class _Faulty:
    """Placeholder for the results of a node with an error."""


class Walk:
    """Imports nodes, and keeps the state of the import: opset versions, constant-folding limits, and the errors so far."""

    def __init__(
        self, file: str, versions: Mapping[str, int], inputs: Collection[str], max_folded: int = MAX_FOLDED_ELEMENTS
    ) -> None:
        self.file, self.versions, self.inputs, self.max_folded = file, dict(versions), inputs, max_folded
        self.faults: list[Diagnostic] = []
        self._executed = 0  # Number of imported nodes. A node in a loop counts once per unrolled iteration.

    def graph(self, graph: Any, operands: Sequence[Any], outer_values: Mapping[str, Any]) -> list[Any]:
        """Import a subgraph and return its results. `operands` are the values of the subgraph's inputs."""
        inputs = [item.name for item in graph.input]
        values = dict(outer_values) | dict(zip(inputs, operands, strict=True))
        values |= {item.name: array_of_proto(item, None, self.file) for item in graph.initializer}
        num_faults = len(self.faults)
        self.nodes(graph.node, values, declared_types((*graph.value_info, *graph.output)))
        if new_faults := self.faults[num_faults:]:
            del self.faults[num_faults:]
            raise _NamedFaults(*new_faults)
        return [as_operand(lookup_value(item.name, values)) for item in graph.output]

    def nodes(self, nodes: Iterable[Any], values: dict[str, Any], declared: Mapping[str, Declared]) -> None:
        """Import nodes in order and add their results to `values`.

        A result whose type differs from the declared one is an error.
        """
        for node in nodes:
            for name, result in zip(node.output, self._results(node, values), strict=False):
                fault = contradiction(declared, name, type_of(result))
                if fault:
                    self.faults.append(
                        _of_node(Diagnostic("MG0104", fault, place_of(node, self.file), hint=HINT), node)
                    )
                if name:
                    values[name] = _Faulty() if fault else result

    def _results(self, node: Any, values: dict[str, Any]) -> Sequence[Any]:
        trace, outer_location = current(), current().at
        trace.at = place_of(node, self.file, outer_location)
        operands: list[Any] = []
        try:
            operands = [lookup_value(name, values) if name else None for name in node.input]
            if any(isinstance(item, _Faulty) for item in operands):
                return [_Faulty()] * len(node.output)
            return self._called(node, operands, values)
        except _NamedFaults as error:
            self.faults += self._with_remedy(error, node, operands)
        except MeshgenError as error:
            self.faults += [_of_node(item, node) for item in self._with_remedy(error, node, operands)]
        except (MemoryError, OverflowError) as error:
            text = f"a number or array that the importer computes is too large: {error}"
            self.faults.append(_of_node(Diagnostic("MG0108", text, trace.at), node))
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            AssertionError,
        ) as error:
            text = f"malformed, or in a form that is not supported: {type(error).__name__}: {error}"
            self.faults.append(_of_node(Diagnostic("MG0104", text, trace.at), node))
        finally:
            trace.at = outer_location
        return [_Faulty()] * len(node.output)

    def _with_remedy(self, error: MeshgenError, node: Any, operands: Sequence[Any]) -> Sequence[Diagnostic]:
        """Return the diagnostics of an error in `node`, with a hint if constant inputs would avoid the error.

        They avoid shapes that are unknown at compile time, and branches that are never taken.
        """
        if isinstance(error, DataOperandError):
            return with_hint(error.diagnostics, remedy(error.operand, self.inputs, "it is known"))
        if node.op_type == "If" and operands and isinstance(operands[0], Tensor):
            return with_hint(error.diagnostics, remedy(operands[0], self.inputs, "the other branch is not read"))
        return error.diagnostics

    def _called(self, node: Any, operands: list[Any], values: dict[str, Any]) -> Sequence[Any]:
        domain, name = _key(node)
        if (operator := TABLE.get((domain, name))) is None:
            if body := body_of(
                node, domain, self.versions.get(domain, 1), [_type_with_elements(operand) for operand in operands]
            ):
                return self._inlined(body, node, operands, values)
            raise _NamedFaults(_unknown(domain, name, [node.name or next(iter(node.output), "")], current().at))
        self._executed += 1
        require_operations(self._executed, "the model, with its loops unrolled,", current().at)
        call = self._call(node, values)
        converted = [self._operand(operator, n, operand) for n, operand in enumerate(operands)]
        if (
            faults := list(schema.type_faults(converted))
            if (schema := schema_of(domain, call.op, call.version))
            else []
        ):
            raise ProgramError(*(Diagnostic("MG0104", text, current().at) for text in faults))
        if not domain and call.version < FIRST:
            call, converted = convert_to_opset_7(call, converted)
        converted = converted if domain else append_newer_operands(call, converted)
        if (
            _can_fold(call, converted)
            and (folded := _constant_fold_call(operator, call, converted, self.max_folded)) is not None
        ):
            return folded
        results = _results_of(operator, call, converted)
        if len(results) < call.results:
            refuse(f"{call.results} results are used, but only the first {len(results)} are supported", code="MG0103")
        return results

    def _inlined(self, body: Any, node: Any, operands: Sequence[Any], outer_values: Mapping[str, Any]) -> Sequence[Any]:
        """Import an operator's function body in place of `node` and return the results.

        Errors name the operator and the node.

        Attributes of the node can be graphs that use values from outside, so these values are in scope in the body.
        """
        values = {**outer_values, **dict.fromkeys(body.input), **dict(zip(body.input, operands, strict=False))}
        outer_versions, num_faults = self.versions, len(self.faults)
        self.versions = outer_versions | {domain_of(item.domain): item.version for item in body.opset_import}
        try:
            self.nodes(body.node, values, {})
        finally:
            self.versions = outer_versions
            self.faults[num_faults:] = [_of_node(item, node) for item in self.faults[num_faults:]]
        pairs = zip(body.output, node.output, strict=False)  # Unused results of the body may have no value.
        return [lookup_value(name, values) if result else None for name, result in pairs]

    def _operand(self, operator: Operator, index: int, value: Any) -> Any:
        if isinstance(value, Weight) and (index in operator.known or index in operator.constant):
            return value.array
        if index in operator.known and value is not None:
            return array_of(value, f"operand {index + 1}")
        return as_operand(value)

    def _call(self, node: Any, values: Mapping[str, Any]) -> Call:
        domain = domain_of(node.domain)
        version = self.versions.get(domain, 1)
        schema = schema_of(domain, node.op_type, version)
        attributes = dict(schema.defaults) if schema else {}
        for attribute in node.attribute:
            attributes[attribute.name] = attribute_value(attribute, self.file)
        count = max((n + 1 for n, name in enumerate(node.output) if name), default=0)

        def run(graph: Any, operands: Sequence[Any]) -> list[Any]:
            return self.graph(graph, operands, values)

        return Call(node.op_type, node.name, version, attributes, count, run)


class _NamedFaults(ProgramError):
    """Errors whose messages already name the node, for example errors in a subgraph."""


def lookup_value(name: str, values: Mapping[str, Any]) -> Any:
    """Return the value with this name.

    Raises ProgramError MG0104 for an undefined name, which a model function may contain.
    """
    if name not in values:
        raise ProgramError(Diagnostic("MG0104", f"'{name}' is used, but not defined", current().at))
    return values[name]


def as_operand(value: Any) -> Any:
    """Return a value as an operand. A weight becomes an input of the program."""
    return value.as_tensor() if isinstance(value, Weight) else value


def _type_with_elements(operand: Any) -> TensorType | list[TensorType] | None:
    """Return the type of an operand, or for a sequence the list of the element types."""
    if isinstance(operand, Elements):
        return [kind for element in operand if (kind := type_of(as_operand(element)))]
    return operand.type if isinstance(operand, Weight) else type_of(operand)


def _results_of(operator: Operator, call: Call, operands: Sequence[Any]) -> Sequence[Any]:
    """Return the results of a call, without unused trailing results."""
    output = operator(call, operands)
    is_one = isinstance(output, Elements) or not isinstance(output, (tuple, list))
    return [output] if is_one else cast("Sequence[Any]", output)[: max(call.results, 1)]


def _can_fold(call: Call, operands: Sequence[Any]) -> bool:
    """Whether the call can be constant-folded: all operands are arrays, and no subgraph can use tensors from outside."""
    arrays = [value for value in operands if value is not None]
    has_graph = any(hasattr(value, "node") for value in call.attributes.values())
    return bool(arrays) and not has_graph and all(isinstance(value, np.ndarray) for value in arrays)


def _constant_fold_call(operator: Operator, call: Call, operands: Sequence[Any], max_elements: int) -> list[Any] | None:
    """Constant-fold a call and return the results as arrays.

    Returns None if a result has more than `max_elements` elements, an intermediate value is too large, or a result is a
    sequence.
    """
    trace = replace(current(), graph=Graph("folded"), constants={}, around=None)
    with recording(trace):
        results = _results_of(operator, call, operands)
        if not all(isinstance(result, (Tensor, np.ndarray)) for result in results):
            return None
        trace.graph.outputs = [tensor(result).value for result in results if isinstance(result, Tensor)]
    if any(value.type.size > max_elements for value in trace.graph.outputs):
        return None
    intermediates = (value for node in all_nodes(trace.graph) for value in node.results)
    if any(value.type.size > MAX_INTERMEDIATE_ELEMENTS for value in intermediates):
        return None
    folded = iter(evaluate(trace.graph, []))
    return [next(folded) if isinstance(result, Tensor) else result for result in results]


def place_of(node: Any, file: str, outer_location: Location | None = None) -> Location:
    """Return the location of a node: the user's Python line if recorded, else `outer_location` or the file.

    The scope is the module path that PyTorch's exporter records, or else the node's name.
    """
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    scope = node.name.strip("/")
    if scopes := metadata.get("pkg.torch.onnx.name_scopes"):
        scope = _innermost(scopes) or scope
    lines = _PYTHON_LINE.findall(metadata.get("pkg.torch.onnx.stack_trace", node.doc_string))
    if lines:
        return Location(lines[-1][0], int(lines[-1][1]), scope=scope)
    return outer_location if outer_location and not scope else Location(file, 0, scope=scope)


def _innermost(scopes: str) -> str:
    """Return the path of the innermost module, such as `layers/0/attn`, from PyTorch's list of scopes.

    The last scope in the list is the operation itself.
    """
    try:
        names = ast.literal_eval(scopes)
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        return ""
    paths = [name for name in names[:-1] if isinstance(name, str) and name] if isinstance(names, list) else []
    return paths[-1].replace(".", "/") if paths else ""


def _of_node(fault: Diagnostic, node: Any) -> Diagnostic:
    title = f"{node.op_type} '{node.name or next(iter(node.output), '')}'"
    return replace(fault, message=f"{title}: {fault.message}")


def refuse_unknown(graph: Any, versions: Mapping[str, int], file: str) -> None:
    """Raise ProgramError MG0103 for all operators without an import rule and without a body, with counts and nodes.

    Branches of `If` are not checked, because the importer may skip the branch.
    """

    def is_unknown(node: Any) -> bool:
        domain, name = _key(node)
        is_read = has_body(domain, name, versions.get(domain, 1)) and not reason(domain, name)[0]
        return (domain, name) not in TABLE and not is_read

    if any(map(is_unknown, nodes_of(graph, with_branches=False))):
        node_names: dict[tuple[str, str], list[str]] = {}
        for node in nodes_of(graph):
            if is_unknown(node):
                node_names.setdefault(_key(node), []).append(node.name or next(iter(node.output), ""))
        raise ProgramError(*(_unknown(*key, names, Location(file, 0)) for key, names in sorted(node_names.items())))


def _key(node: Any) -> tuple[str, str]:
    return domain_of(node.domain), node.op_type


def _unknown(domain: str, name: str, nodes: list[str], loc: Location | None) -> Diagnostic:
    listed = ", ".join(f"'{node_name}'" for node_name in nodes[:3]) + (
        f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    )
    text = f"operator {f'{domain}.' if domain else ''}{name} is not supported: {len(nodes)} node{'s' if len(nodes) > 1 else ''}, {listed}"
    why, hint = reason(domain, name)
    return Diagnostic("MG0103", text + (f"; {why}" if why else ""), loc, hint=hint)
