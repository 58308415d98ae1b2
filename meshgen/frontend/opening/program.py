"""One program with open sizes from the programs that a reader makes of it for several sizes.

Readers of PyTorch and ONNX compute shapes with numbers. They read the program at a few points; the graphs must be alike, and every size,
attribute and constant that differs must be a formula of the symbols. What takes a shape as attribute becomes the op that takes it as operand.
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
from meshgen.frontend.opening.amounts import Amounts, sources_of
from meshgen.frontend.opening.constants import written
from meshgen.frontend.opening.fitting import Formulas
from meshgen.frontend.opening.limits import Limit, assert_sizes
from meshgen.frontend.opening.points import Point, Ranges, far_point_of, more_points_of, points_of
from meshgen.frontend.tracer.joining import stack
from meshgen.frontend.tracer.operands import emit
from meshgen.frontend.tracer.recording import Trace
from meshgen.frontend.tracer.regions import recording
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.attributes.base import NoAttributes
from meshgen.ir.attributes.table import KINDS
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.symbols import Expr
from meshgen.ops.types.inference import infer_types
from meshgen.sizes.size_ops import SHAPE, STATIC

Read: TypeAlias = Callable[[Point], tuple[Module, Signature]]
Begin: TypeAlias = Callable[[Sequence[Value], Sequence[Sequence[Expr]], Amounts], None]
# By op: the one that takes as operands what this one has as attributes, and which.
_DYNAMIC = {static: (dynamic, names) for dynamic, (static, names) in STATIC.items()}
_FROM_OPERAND = (
    "convert",
    "bitcast_convert",
)  # results whose shapes follow, though the op leaves their types to the program
HINT = "give args=, the types of the inputs, on the command line --shape: one module is then for these sizes"


def opened(ranges: Ranges, read: Read, limits: Sequence[Limit] = ()) -> tuple[Module, Signature]:
    """The program with sizes that are open, and its signature.

    Args:
        ranges: the least and the largest number of each symbol (None: any).
        read: the program for a number of each symbol.
        limits: what must hold of the symbols beside the ranges.
    Raises:
        ProgramError: MG0208 where the program is not the same but for formulas of its sizes, with the first place; else as `read`.
    """
    points = points_of(ranges)
    if points is None:
        text = f"sizes of the program cannot stay open: {', '.join(ranges)} may have too few numbers to tell how the program depends on them"
        raise ProgramError(Diagnostic("MG0208", text, hint=HINT))
    found = [read(point) for point in points]
    with suppress(ProgramError):  # the model may not be for sizes as large as that
        found.append(read(far := far_point_of(ranges)))
        points.append(far)

    def begin(inputs: Sequence[Value], shapes: Sequence[Sequence[Expr]], amounts: Amounts) -> None:
        assert_sizes(inputs, shapes, amounts, ranges, limits)

    def written(formulas: Formulas) -> tuple[Module, Signature]:
        module, signature = found[0]
        return replace(module, graph=_Writer(formulas).graph([each.graph for each, _ in found], begin)), signature

    try:
        return written(Formulas(points))
    except ProgramError as error:
        more = more_points_of(ranges)
        try:
            found += [read(point) for point in more]
        except ProgramError:
            raise error from None
    return written(Formulas([*points, *more], rounds=True))


def _refuse(text: str, loc: Location | None) -> NoReturn:
    raise ProgramError(Diagnostic("MG0208", f"sizes of the program cannot stay open: {text}", loc, hint=HINT))


@dataclass(frozen=True)
class _Writer:
    """Writes one graph for several that are alike, of the same program at these points."""

    formulas: Formulas

    def graph(self, rows: Sequence[Graph], begin: Begin | None = None) -> Graph:
        """The graph of which these are what it is at the points; `begin` records what comes first."""
        _refuse_unlike(rows)
        first = rows[0]
        shapes = [self._shape(values, values[0].loc) for values in zip(*(each.inputs for each in rows), strict=True)]
        new = Graph(first.name, [_like(value, shape) for value, shape in zip(first.inputs, shapes, strict=True)])
        put = dict(zip(first.inputs, new.inputs, strict=True))
        trace = Trace(new)
        with recording(trace):
            amounts = Amounts(sources_of(zip(new.inputs, shapes, strict=True)))
            if begin:
                if missing := [name for name in self.formulas.points[0] if name not in amounts.sources]:
                    _refuse(f"no size of an input tells {missing[0]}", first.inputs[0].loc if first.inputs else None)
                begin(new.inputs, shapes, amounts)
            for nodes in zip(*(each.nodes for each in rows), strict=True):
                trace.at = nodes[0].loc
                results = self._node(new, nodes, [put[value] for value in nodes[0].operands], amounts)
                put.update(zip(nodes[0].results, results, strict=True))
        new.outputs = [put[value] for value in first.outputs]
        return new

    def _shape(self, values: Sequence[Value], loc: Location | None) -> tuple[Expr, ...]:
        """The sizes of a value as formulas."""
        columns = zip(*(value.type.sizes for value in values), strict=True)
        return tuple(self._formula(column, f"a tensor of type {values[0].type}", loc) for column in columns)

    def _formula(self, numbers: Sequence[int], what: str, loc: Location | None) -> Expr:
        found = self.formulas.of(numbers)
        return _refuse(f"{what} has a size that is not a known formula of them: {_said(numbers, self.formulas.points)}", loc) if found is None else found  # fmt: skip

    def _node(self, new: Graph, nodes: Sequence[Node], operands: list[Value], amounts: Amounts) -> Sequence[Value]:
        """Record what nodes of all graphs are; its results."""
        first = nodes[0]
        shapes = [self._shape(values, first.loc) for values in zip(*(each.results for each in nodes), strict=True)]
        results = [_like(value, shape) for value, shape in zip(first.results, shapes, strict=True)]
        needed = {name: self._attribute(name, nodes) for name in first.attrs.field_types if _differs(name, nodes)}
        is_open = any(None in value.type.shape for value in results)
        dynamic, names = _DYNAMIC.get(first.op, ("", ()))
        if is_constant(first) and (needed or is_open):
            return [self._constant(nodes, results[0].type, shapes[0], amounts)]
        op, attrs = first.op, first.attrs
        if needed and first.op == "dynamic_slice":
            sizes = _listed(self._operand("slice_sizes", first, shapes, needed), "slice_sizes", first, amounts)
            return [_gathered(operands, results[0].type, sizes).value]
        if needed or (is_open and names == SHAPE):
            op, attrs = dynamic, self._attributes_of(dynamic, names, first, needed)
            lists = [self._operand(name, first, shapes, needed) for name in names]
            operands = operands + [_listed(each, name, first, amounts).value for each, name in zip(lists, names, strict=True)]  # fmt: skip
        elif is_open and not self._follows(first):
            _refuse(f"the result of '{first.op}' depends on them, and no operand has its shape", first.loc)
        regions = tuple(self.graph(each) for each in zip(*(node.regions for node in nodes), strict=True))
        new.nodes.append(replace(first, op=op, attrs=attrs, operands=operands, results=results, regions=regions))
        return results

    def _constant(self, nodes: Sequence[Node], kind: TensorType, shape: Sequence[Expr], amounts: Amounts) -> Value:
        arrays = [np.asarray(each.attrs.value) for each in nodes]
        found = written(arrays, kind, shape, self.formulas, amounts)
        if found is None:
            _refuse(f"a constant of type {nodes[0].result.type} depends on them in another way than as a number of elements, a list of sizes or a counter", nodes[0].loc)  # fmt: skip
        return found.value

    def _attribute(self, name: str, nodes: Sequence[Node]) -> list[Expr]:
        """An attribute that differs, number by number; empty for a constant's array."""
        first = nodes[0]
        if is_constant(first):
            return []
        lists = [getattr(each.attrs, name) for each in nodes]
        if not all(isinstance(each, tuple) and len(each) == len(lists[0]) for each in lists):
            _refuse(f"'{first.op}' has another {name} for each: {_said(lists, self.formulas.points)}", first.loc)
        return [self._formula(column, f"'{first.op}'", first.loc) for column in zip(*lists, strict=True)]

    def _attributes_of(self, op: str, names: Sequence[str], first: Node, needed: Mapping[str, Any]) -> dict[str, Any]:
        """What the op that takes sizes as operands has left of the attributes."""
        taken = {*names} | ({"low", "high"} if "padding" in names else set[str]())
        if left := [name for name in needed if name not in taken]:
            _refuse(f"'{first.op}' has another {left[0]} for each", first.loc)
        kind = KINDS.get(op, NoAttributes)
        return {name: given for name, given in first.attrs.given.items() if name in kind.field_types}

    def _operand(self, name: str, first: Node, shapes: Sequence[Sequence[Expr]], needed: Mapping[str, list[Expr]]) -> list[Expr]:  # fmt: skip
        """The numbers of an operand that takes the place of an attribute, or of the shape."""
        if name in SHAPE:
            return list(shapes[0])
        if name == "padding":  # a pair for each dim
            pairs = zip(*(self._operand(each, first, shapes, needed) for each in ("low", "high")), strict=True)
            return [each for pair in pairs for each in pair]
        return needed.get(name) or [Expr.of(n) for n in getattr(first.attrs, name)]

    def _follows(self, node: Node) -> bool:
        """Whether the types of results follow from operands and attributes."""
        kinds = [value.type for value in node.operands]
        return node.op in _FROM_OPERAND or infer_types(node.op, node.attrs.given, kinds, node.regions, node.loc) is not None  # fmt: skip


def _like(value: Value, shape: Sequence[Expr]) -> Value:
    """The value with open sizes where they are not numbers."""
    return Value(value.type.with_shape(each.number for each in shape), value.name, value.sharding, value.loc, id=value.id)  # fmt: skip


def _differs(name: str, nodes: Sequence[Node]) -> bool:
    first, *others = (getattr(each.attrs, name) for each in nodes)
    if isinstance(first, np.ndarray | np.generic):
        return any(np.shape(each) != np.shape(first) or np.asarray(each).tobytes() != first.tobytes() for each in others)  # fmt: skip
    return any(each != first for each in others)


def _listed(numbers: Sequence[Expr], name: str, node: Node, amounts: Amounts) -> Tensor:
    if not all(map(amounts.has, numbers)):
        _refuse(f"'{node.op}' depends on them inside of a loop or a branch that has no tensor of such a size", node.loc)
    found = amounts.vector(numbers)
    return reshape(found, (-1, 2)) if name == "padding" else found


def _gathered(operands: Sequence[Value], kind: TensorType, sizes: Tensor) -> Tensor:
    """A slice whose place is data, as StableHLO has it for sizes that are operands: a gather of one slice."""
    x, *starts = map(Tensor, operands)
    every = tuple(range(kind.rank))
    none = dict.fromkeys(("collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims"), ())
    attrs = {"offset_dims": every, "start_index_map": every, "index_vector_dim": 0, **none}
    return emit("dynamic_gather", [x, stack(starts), sizes], kind, attrs)


def _said(numbers: Sequence[Any], points: Sequence[Point]) -> str:
    """Numbers at the first two points, for a message."""
    return ", ".join(f"{number} where {' and '.join(f'{name} is {n}' for name, n in point.items())}" for number, point in zip(numbers[:2], points, strict=False))  # fmt: skip


def _refuse_unlike(rows: Sequence[Graph]) -> None:
    """Refuse graphs that differ in their operations, or in what these read."""
    for other in rows[1:]:
        numbers = [{value: n for n, value in enumerate(each.values())} for each in (rows[0], other)]
        for one, two in zip_longest(rows[0].nodes, other.nodes):
            read = [
                [own.get(value) for value in node.operands]
                for own, node in zip(numbers, (one, two), strict=True)
                if node
            ]
            if (
                one is None
                or two is None
                or one.op != two.op
                or read[0] != read[1]
                or len(one.regions) != len(two.regions)
            ):
                node = one or two
                _refuse(f"other operations are made for other sizes, from '{node.op if node else ''}' on", node.loc if node else None)  # fmt: skip
