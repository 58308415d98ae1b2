"""Merge the programs that a reader imports at several sizes into one program with open sizes.

The readers of PyTorch and ONNX compute shapes with numbers. This module lets them import the program at a few points.
The graphs must have the same structure, and each size, attribute and constant that differs must be a formula of the
symbols. An op with a shape attribute becomes the op that takes the shape as an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NoReturn, TypeAlias

import numpy as np

from meshgen.calls.signature import Signature
from meshgen.errors import Diagnostic, Location, ProgramError
from meshgen.frontend.opening.constants import emit_constant
from meshgen.frontend.opening.emit_formulas import FormulaEmitter, sources_of
from meshgen.frontend.opening.fitting import Formulas
from meshgen.frontend.opening.points import Point, Ranges, far_fitting_point, fitting_points, quotient_points
from meshgen.frontend.opening.size_assertions import Limit, assert_sizes
from meshgen.frontend.tracer.joining import stack
from meshgen.frontend.tracer.operands import emit
from meshgen.frontend.tracer.recording import Trace
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.frontend.tracer.trace_regions import recording
from meshgen.ir.attributes.base import NoAttributes
from meshgen.ir.attributes.table import KINDS
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.symbols import Expr
from meshgen.ops.types.inference import infer_types
from meshgen.sizes.size_ops import SHAPE, STATIC

Read: TypeAlias = Callable[[Point], tuple[Module, Signature]]
Begin: TypeAlias = Callable[[Sequence[Value], Sequence[Sequence[Expr]], FormulaEmitter], None]
# Maps each op to (the op that takes some of its attributes as operands, the names of these attributes).
_DYNAMIC = {static: (dynamic, names) for dynamic, (static, names) in STATIC.items()}
_FROM_OPERAND = (
    "convert",
    "bitcast_convert",
)  # Ops that state their result types although the result shapes follow from the operands.
HINT = "give args=, the types of the inputs, on the command line --shape: one module is then for these sizes"


def opened(ranges: Ranges, read: Read, limits: Sequence[Limit] = ()) -> tuple[Module, Signature]:
    """Return the program with open sizes, and its call signature.

    Args:
        ranges: the minimum and maximum of each symbol; a maximum of None means unbounded.
        read: imports the program with a number for each symbol.
        limits: further constraints on the symbols.

    Raises:
        ProgramError: MG0208, the imported programs differ by more than formulas of sizes (the error shows the first
            difference); or an error of `read`.
    """
    points = fitting_points(ranges)
    if points is None:
        text = f"sizes of the program cannot stay open: {', '.join(ranges)} may have too few sizes to show how the program depends on them"
        raise ProgramError(Diagnostic("MG0208", text, hint=HINT))
    programs = [read(point) for point in points]
    with suppress(ProgramError):  # The model may not support sizes this large.
        programs.append(read(far := far_fitting_point(ranges)))
        points.append(far)

    def begin(inputs: Sequence[Value], shapes: Sequence[Sequence[Expr]], amounts: FormulaEmitter) -> None:
        assert_sizes(inputs, shapes, amounts, ranges, limits)

    def written(formulas: Formulas) -> tuple[Module, Signature]:
        module, signature = programs[0]
        return replace(
            module, graph=_Writer(formulas).graph([module_at_point.graph for module_at_point, _ in programs], begin)
        ), signature

    try:
        return written(Formulas(points))
    except ProgramError as error:
        extra_points = quotient_points(ranges)
        try:
            programs += [read(point) for point in extra_points]
        except ProgramError:
            raise error from None
    return written(Formulas([*points, *extra_points], rounds=True))


def _refuse(text: str, loc: Location | None) -> NoReturn:
    raise ProgramError(Diagnostic("MG0208", f"sizes of the program cannot stay open: {text}", loc, hint=HINT))


@dataclass(frozen=True)
class _Writer:
    """Merges graphs of the same structure, each imported at one point of `formulas`, into one graph with open sizes."""

    formulas: Formulas

    def graph(self, graphs: Sequence[Graph], begin: Begin | None = None) -> Graph:
        """Return the graph that equals `graphs[i]` if the sizes are those of point i.

        `begin` emits the first operations.
        """
        _refuse_unlike(graphs)
        first = graphs[0]
        shapes = [
            self._shape(values, values[0].loc)
            for values in zip(*(graph_at_point.inputs for graph_at_point in graphs), strict=True)
        ]
        new = Graph(first.name, [_like(value, shape) for value, shape in zip(first.inputs, shapes, strict=True)])
        new_values = dict(zip(first.inputs, new.inputs, strict=True))
        trace = Trace(new)
        with recording(trace):
            amounts = FormulaEmitter(sources_of(zip(new.inputs, shapes, strict=True)))
            if begin:
                if missing := [name for name in self.formulas.points[0] if name not in amounts.sources]:
                    _refuse(f"no input size determines {missing[0]}", first.inputs[0].loc if first.inputs else None)
                begin(new.inputs, shapes, amounts)
            for nodes in zip(*(graph_at_point.nodes for graph_at_point in graphs), strict=True):
                trace.at = nodes[0].loc
                results = self._node(new, nodes, [new_values[value] for value in nodes[0].operands], amounts)
                new_values.update(zip(nodes[0].results, results, strict=True))
        new.outputs = [new_values[value] for value in first.outputs]
        return new

    def _shape(self, values: Sequence[Value], loc: Location | None) -> tuple[Expr, ...]:
        """Return the sizes of a value as formulas; `values[i]` is the value at point i."""
        columns = zip(*(value.type.sizes for value in values), strict=True)
        return tuple(self._formula(column, f"a tensor of type {values[0].type}", loc) for column in columns)

    def _formula(self, numbers: Sequence[int], subject: str, loc: Location | None) -> Expr:
        formula = self.formulas.of(numbers)
        return _refuse(f"{subject} has a size that is not a supported formula of them: {_numbers_text(numbers, self.formulas.points)}", loc) if formula is None else formula  # fmt: skip

    def _node(
        self, new: Graph, nodes: Sequence[Node], operands: list[Value], amounts: FormulaEmitter
    ) -> Sequence[Value]:
        """Emit the operation that equals `nodes[i]` at point i, and return its results."""
        first = nodes[0]
        shapes = [
            self._shape(values, first.loc) for values in zip(*(numbers.results for numbers in nodes), strict=True)
        ]
        results = [_like(value, shape) for value, shape in zip(first.results, shapes, strict=True)]
        attribute_formulas = {
            name: self._attribute(name, nodes) for name in first.attrs.field_types if _differs(name, nodes)
        }
        is_open = any(None in value.type.shape for value in results)
        dynamic, names = _DYNAMIC.get(first.op, ("", ()))
        if is_constant(first) and (attribute_formulas or is_open):
            return [self._constant(nodes, results[0].type, shapes[0], amounts)]
        op, attrs = first.op, first.attrs
        if attribute_formulas and first.op == "dynamic_slice":
            sizes = _listed(
                self._operand("slice_sizes", first, shapes, attribute_formulas), "slice_sizes", first, amounts
            )
            return [_gathered(operands, results[0].type, sizes).value]
        if attribute_formulas or (is_open and names == SHAPE):
            op, attrs = dynamic, self._attributes_of(dynamic, names, first, attribute_formulas)
            lists = [self._operand(name, first, shapes, attribute_formulas) for name in names]
            operands = operands + [_listed(numbers, name, first, amounts).value for numbers, name in zip(lists, names, strict=True)]  # fmt: skip
        elif is_open and not self._follows(first):
            _refuse(f"the result of '{first.op}' depends on them, and no operand has its shape", first.loc)
        regions = tuple(self.graph(numbers) for numbers in zip(*(node.regions for node in nodes), strict=True))
        new.nodes.append(replace(first, op=op, attrs=attrs, operands=operands, results=results, regions=regions))
        return results

    def _constant(
        self, nodes: Sequence[Node], kind: TensorType, shape: Sequence[Expr], amounts: FormulaEmitter
    ) -> Value:
        arrays = [np.asarray(node.attrs.value) for node in nodes]
        constant = emit_constant(arrays, kind, shape, self.formulas, amounts)
        if constant is None:
            _refuse(f"a constant of type {nodes[0].result.type} depends on them in another way than as a number of elements, a list of sizes or a counter", nodes[0].loc)  # fmt: skip
        return constant.value

    def _attribute(self, name: str, nodes: Sequence[Node]) -> list[Expr]:
        """Return the formulas for the numbers of the attribute `name`, which differs between `nodes`.

        Returns an empty list for the array of a constant.
        """
        first = nodes[0]
        if is_constant(first):
            return []
        attribute_values = [getattr(attribute_value.attrs, name) for attribute_value in nodes]
        if not all(
            isinstance(attribute_value, tuple) and len(attribute_value) == len(attribute_values[0])
            for attribute_value in attribute_values
        ):
            _refuse(
                f"attribute {name} of '{first.op}' differs: {_numbers_text(attribute_values, self.formulas.points)}",
                first.loc,
            )
        return [self._formula(column, f"'{first.op}'", first.loc) for column in zip(*attribute_values, strict=True)]

    def _attributes_of(
        self, op: str, names: Sequence[str], first: Node, attribute_formulas: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the attributes of `first` that `op`, which takes sizes as operands, still has as attributes."""
        operand_names = {*names} | ({"low", "high"} if "padding" in names else set[str]())
        if still_varying := [name for name in attribute_formulas if name not in operand_names]:
            _refuse(f"attribute {still_varying[0]} of '{first.op}' differs", first.loc)
        kind = KINDS.get(op, NoAttributes)
        return {name: attribute for name, attribute in first.attrs.given.items() if name in kind.field_types}

    def _operand(self, name: str, first: Node, shapes: Sequence[Sequence[Expr]], attribute_formulas: Mapping[str, list[Expr]]) -> list[Expr]:  # fmt: skip
        """Return the formulas of the operand that replaces the attribute `name`, or those of the result shape."""
        if name in SHAPE:
            return list(shapes[0])
        if name == "padding":  # The operand is a list of (low, high) for each dim.
            pairs = zip(
                *(self._operand(entry, first, shapes, attribute_formulas) for entry in ("low", "high")), strict=True
            )
            return [entry for pair in pairs for entry in pair]
        return attribute_formulas.get(name) or [Expr.of(n) for n in getattr(first.attrs, name)]

    def _follows(self, node: Node) -> bool:
        """Whether the result types of `node` follow from operands and attributes, also when sizes are open."""
        kinds = [value.type for value in node.operands]
        return node.op in _FROM_OPERAND or infer_types(node.op, node.attrs.given, kinds, node.regions, node.loc) is not None  # fmt: skip


def _like(value: Value, shape: Sequence[Expr]) -> Value:
    """Return a value like `value` with the sizes `shape`; a size that is not a number becomes open."""
    return Value(value.type.with_shape(size.number for size in shape), value.name, value.sharding, value.loc, id=value.id)  # fmt: skip


def _differs(name: str, nodes: Sequence[Node]) -> bool:
    first, *later_values = (getattr(attribute.attrs, name) for attribute in nodes)
    if isinstance(first, np.ndarray | np.generic):
        return any(np.shape(attribute) != np.shape(first) or np.asarray(attribute).tobytes() != first.tobytes() for attribute in later_values)  # fmt: skip
    return any(attribute != first for attribute in later_values)


def _listed(numbers: Sequence[Expr], name: str, node: Node, amounts: FormulaEmitter) -> Tensor:
    if not all(map(amounts.has, numbers)):
        _refuse(f"'{node.op}' depends on them inside of a loop or a branch that has no tensor of such a size", node.loc)
    vector = amounts.vector(numbers)
    return reshape(vector, (-1, 2)) if name == "padding" else vector


def _gathered(operands: Sequence[Value], kind: TensorType, sizes: Tensor) -> Tensor:
    """Emit a slice whose offset and sizes are computed at run time, as a gather of one slice (as in StableHLO)."""
    x, *starts = map(Tensor, operands)
    every = tuple(range(kind.rank))
    none = dict.fromkeys(("collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims"), ())
    attrs = {"offset_dims": every, "start_index_map": every, "index_vector_dim": 0, **none}
    return emit("dynamic_gather", [x, stack(starts), sizes], kind, attrs)


def _numbers_text(numbers: Sequence[Any], points: Sequence[Point]) -> str:
    """Return the values of a number at the first two points as text for a message."""
    return ", ".join(f"{number} where {' and '.join(f'{name} is {n}' for name, n in point.items())}" for number, point in zip(numbers[:2], points, strict=False))  # fmt: skip


def _refuse_unlike(rows: Sequence[Graph]) -> None:
    """Raise ProgramError MG0208 if two graphs differ in their operations or in the operands of an operation."""
    for other in rows[1:]:
        numbers = [{value: n for n, value in enumerate(graph.values())} for graph in (rows[0], other)]
        for one, two in zip_longest(rows[0].nodes, other.nodes):
            operand_numbers = [
                [value_numbers.get(value) for value in node.operands]
                for value_numbers, node in zip(numbers, (one, two), strict=True)
                if node
            ]
            if (
                one is None
                or two is None
                or one.op != two.op
                or operand_numbers[0] != operand_numbers[1]
                or len(one.regions) != len(two.regions)
            ):
                node = one or two
                _refuse(f"the operations differ between sizes, from '{node.op if node else ''}' on", node.loc if node else None)  # fmt: skip
