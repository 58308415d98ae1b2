"""Runs the nodes of a model on traced tensors, in order.

What is known now (shapes, and whatever is computed of constants) is a NumPy array; a node whose operands are all known is evaluated
at once, with the evaluator of the compiler. Faults of all nodes are raised together; nodes that read the results of a faulty one are
left out.
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
from meshgen.frontend.onnx.bodies import body_of, has_body
from meshgen.frontend.onnx.declared import HINT, Declared, contradiction, declared_types, type_of
from meshgen.frontend.onnx.files import Initializers, array_of_proto
from meshgen.frontend.onnx.older import FIRST, as_of_opset_7, with_newer_operands
from meshgen.frontend.onnx.ops.refused import reason
from meshgen.frontend.onnx.ops.table import TABLE, Array, Call, DataOperandError, Elements, Operator, array_of
from meshgen.frontend.onnx.origins import remedy, with_hint
from meshgen.frontend.onnx.prepare import domain_of, nodes_of
from meshgen.frontend.onnx.schemas import attribute_value, schema_of
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import Trace, current, refuse
from meshgen.frontend.tracer.regions import recording
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Graph, TensorType, Value, dtype_name
from meshgen.ir.regions import all_nodes
from meshgen.ops.evaluate.evaluator import evaluate

MOST_FOLDED = 1 << 16  # elements of a result that is computed now: larger ones are left to the program
MOST_BETWEEN = 1 << 22  # elements of a value that such a result is computed from
_PYTHON_LINE = re.compile(r'File "([^"]+)", line ([0-9]{1,9})')


class Weight:
    """An initializer: an input of the program once an operator reads it, an array where one asks for its numbers."""

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
    """The result of a node that was refused."""


class Walk:
    """The nodes of a model, and the faults found so far."""

    def __init__(
        self, file: str, versions: Mapping[str, int], inputs: Collection[str], most_folded: int = MOST_FOLDED
    ) -> None:
        self.file, self.versions, self.inputs, self.most_folded = file, dict(versions), inputs, most_folded
        self.faults: list[Diagnostic] = []
        self._executed = 0  # nodes, each as often as it is read

    def graph(self, graph: Any, operands: Sequence[Any], around: Mapping[str, Any]) -> list[Any]:
        """The results of a graph inside a node, whose inputs are these operands."""
        inputs = [each.name for each in graph.input]
        values = dict(around) | dict(zip(inputs, operands, strict=True))
        values |= {each.name: array_of_proto(each, None, self.file) for each in graph.initializer}
        before = len(self.faults)
        self.nodes(graph.node, values, declared_types((*graph.value_info, *graph.output)))
        if found := self.faults[before:]:
            del self.faults[before:]
            raise _Inside(*found)
        return [as_operand(value_named(each.name, values)) for each in graph.output]

    def nodes(self, nodes: Iterable[Any], values: dict[str, Any], declared: Mapping[str, Declared]) -> None:
        """Run nodes in order: their results, which must have the declared types, are added to the values."""
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
        trace, around = current(), current().at
        trace.at = place_of(node, self.file, around)
        operands: list[Any] = []
        try:
            operands = [value_named(name, values) if name else None for name in node.input]
            if any(isinstance(each, _Faulty) for each in operands):
                return [_Faulty()] * len(node.output)
            return self._called(node, operands, values)
        except _Inside as error:
            self.faults += self._with_remedy(error, node, operands)
        except MeshgenError as error:
            self.faults += [_of_node(each, node) for each in self._with_remedy(error, node, operands)]
        except (MemoryError, OverflowError) as error:
            text = f"a number or an array that is computed while the model is read is too large: {error}"
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
            trace.at = around
        return [_Faulty()] * len(node.output)

    def _with_remedy(self, error: MeshgenError, node: Any, operands: Sequence[Any]) -> Sequence[Diagnostic]:
        """The faults of a node; with the inputs whose values would decide a shape or choose a branch."""
        if isinstance(error, DataOperandError):
            return with_hint(error.diagnostics, remedy(error.operand, self.inputs, "it is known"))
        if node.op_type == "If" and operands and isinstance(operands[0], Tensor):
            return with_hint(error.diagnostics, remedy(operands[0], self.inputs, "the other branch is not read"))
        return error.diagnostics

    def _called(self, node: Any, operands: list[Any], values: dict[str, Any]) -> Sequence[Any]:
        domain, name = _key(node)
        if (operator := TABLE.get((domain, name))) is None:
            if body := body_of(
                node, domain, self.versions.get(domain, 1), [_type_with_elements(each) for each in operands]
            ):
                return self._inlined(body, node, operands, values)
            raise _Inside(_unknown(domain, name, [node.name or next(iter(node.output), "")], current().at))
        self._executed += 1
        require_operations(self._executed, "the model, with the trips of its loops,", current().at)
        call = self._call(node, values)
        given = [self._operand(operator, n, each) for n, each in enumerate(operands)]
        if faults := list(schema.type_faults(given)) if (schema := schema_of(domain, call.op, call.version)) else []:
            raise ProgramError(*(Diagnostic("MG0104", text, current().at) for text in faults))
        if not domain and call.version < FIRST:
            call, given = as_of_opset_7(call, given)
        given = given if domain else with_newer_operands(call, given)
        if _is_known(call, given) and (folded := _folded(operator, call, given, self.most_folded)) is not None:
            return folded
        results = _results_of(operator, call, given)
        if len(results) < call.results:
            refuse(f"{call.results} results are read, but the first {len(results)} only are supported", code="MG0103")
        return results

    def _inlined(self, body: Any, node: Any, operands: Sequence[Any], around: Mapping[str, Any]) -> Sequence[Any]:
        """The results of the body of an operator; graphs of the operator in it may read values around it. Its faults name the operator too."""
        values = {**around, **dict.fromkeys(body.input), **dict(zip(body.input, operands, strict=False))}
        outside, before = self.versions, len(self.faults)
        self.versions = outside | {domain_of(each.domain): each.version for each in body.opset_import}
        try:
            self.nodes(body.node, values, {})
        finally:
            self.versions = outside
            self.faults[before:] = [_of_node(each, node) for each in self.faults[before:]]
        pairs = zip(body.output, node.output, strict=False)  # results that are not read may have no value
        return [value_named(name, values) if result else None for name, result in pairs]

    def _operand(self, operator: Operator, number: int, given: Any) -> Any:
        if isinstance(given, Weight) and (number in operator.known or number in operator.constant):
            return given.array
        if number in operator.known and given is not None:
            return array_of(given, f"operand {number + 1}")
        return as_operand(given)

    def _call(self, node: Any, values: Mapping[str, Any]) -> Call:
        domain = domain_of(node.domain)
        version = self.versions.get(domain, 1)
        schema = schema_of(domain, node.op_type, version)
        attributes = dict(schema.defaults) if schema else {}
        for each in node.attribute:
            attributes[each.name] = attribute_value(each, self.file)
        count = max((n + 1 for n, name in enumerate(node.output) if name), default=0)

        def run(graph: Any, operands: Sequence[Any]) -> list[Any]:
            return self.graph(graph, operands, values)

        return Call(node.op_type, node.name, version, attributes, count, run)


class _Inside(ProgramError):
    """Faults that name their nodes already, such as those of a graph inside a node."""


def value_named(name: str, values: Mapping[str, Any]) -> Any:
    """Return a value by its name. Raises ProgramError MG0104 for a name that nothing computes, as a function may have."""
    if name not in values:
        raise ProgramError(Diagnostic("MG0104", f"'{name}' is read, but nothing computes it", current().at))
    return values[name]


def as_operand(value: Any) -> Any:
    """A value as operators take it: a weight is an input of the program from here on."""
    return value.as_tensor() if isinstance(value, Weight) else value


def _type_with_elements(operand: Any) -> TensorType | list[TensorType] | None:
    """The type of an operand; of a sequence those of its elements."""
    if isinstance(operand, Elements):
        return [kind for each in operand if (kind := type_of(as_operand(each)))]
    return operand.type if isinstance(operand, Weight) else type_of(operand)


def _results_of(operator: Operator, call: Call, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of a call, without the last ones that nothing reads."""
    found = operator(call, operands)
    is_one = isinstance(found, Elements) or not isinstance(found, (tuple, list))
    return [found] if is_one else cast("Sequence[Any]", found)[: max(call.results, 1)]


def _is_known(call: Call, operands: Sequence[Any]) -> bool:
    """Whether all operands are arrays, and the call has no graph, which may read data from around it."""
    arrays = [each for each in operands if each is not None]
    has_graph = any(hasattr(each, "node") for each in call.attributes.values())
    return bool(arrays) and not has_graph and all(isinstance(each, np.ndarray) for each in arrays)


def _folded(operator: Operator, call: Call, operands: Sequence[Any], most: int) -> list[Any] | None:
    """The results as arrays; None where they are large, or sequences."""
    trace = replace(current(), graph=Graph("folded"), constants={}, around=None)
    with recording(trace):
        found = _results_of(operator, call, operands)
        if not all(isinstance(each, (Tensor, np.ndarray)) for each in found):
            return None
        trace.graph.outputs = [tensor(each).value for each in found if isinstance(each, Tensor)]
    if any(value.type.size > most for value in trace.graph.outputs):
        return None
    made = (value for node in all_nodes(trace.graph) for value in node.results)
    if any(value.type.size > MOST_BETWEEN for value in made):
        return None
    computed = iter(evaluate(trace.graph, []))
    return [next(computed) if isinstance(each, Tensor) else each for each in found]


def place_of(node: Any, file: str, around: Location | None = None) -> Location:
    """The place of a node: the user's line of Python where the exporter wrote it down, and the name as scope; else that around it."""
    said = {each.key: each.value for each in node.metadata_props}
    scope = node.name.strip("/")
    if scopes := said.get("pkg.torch.onnx.name_scopes"):
        scope = _innermost(scopes) or scope
    lines = _PYTHON_LINE.findall(said.get("pkg.torch.onnx.stack_trace", node.doc_string))
    if lines:
        return Location(lines[-1][0], int(lines[-1][1]), scope=scope)
    return around if around and not scope else Location(file, 0, scope=scope)


def _innermost(scopes: str) -> str:
    """The module path of PyTorch's list of scopes, whose last one is the operation: `layers/0/attn`."""
    try:
        names = ast.literal_eval(scopes)
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        return ""
    held = [each for each in names[:-1] if isinstance(each, str) and each] if isinstance(names, list) else []
    return held[-1].replace(".", "/") if held else ""


def _of_node(fault: Diagnostic, node: Any) -> Diagnostic:
    called = f"{node.op_type} '{node.name or next(iter(node.output), '')}'"
    return replace(fault, message=f"{called}: {fault.message}")


def refuse_unknown(graph: Any, versions: Mapping[str, int], file: str) -> None:
    """Raise ProgramError MG0103 with every operator that has neither an entry in the table nor a body: how often, and where.

    Operators in branches alone are left to the walk, which may not read the branch.
    """

    def is_unknown(node: Any) -> bool:
        domain, name = _key(node)
        is_read = has_body(domain, name, versions.get(domain, 1)) and not reason(domain, name)[0]
        return (domain, name) not in TABLE and not is_read

    if any(map(is_unknown, nodes_of(graph, with_branches=False))):
        found: dict[tuple[str, str], list[str]] = {}
        for node in nodes_of(graph):
            if is_unknown(node):
                found.setdefault(_key(node), []).append(node.name or next(iter(node.output), ""))
        raise ProgramError(*(_unknown(*key, names, Location(file, 0)) for key, names in sorted(found.items())))


def _key(node: Any) -> tuple[str, str]:
    return domain_of(node.domain), node.op_type


def _unknown(domain: str, name: str, nodes: list[str], loc: Location | None) -> Diagnostic:
    shown = ", ".join(f"'{each}'" for each in nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    text = f"operator {f'{domain}.' if domain else ''}{name} is not supported: {len(nodes)} node{'s' if len(nodes) > 1 else ''}, {shown}"
    why, hint = reason(domain, name)
    return Diagnostic("MG0103", text + (f"; {why}" if why else ""), loc, hint=hint)
