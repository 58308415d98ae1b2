"""Scalar functions: one element of a value, computed from a score, elements of operands, and positions.

    %c = compare GE (iota over rows), (iota over keys)          ^bb0(%score, %bias, %row, %key):
    %m = select %c, (%scores + %bias), -inf                       %c = compare GE, %row, %key
                                                                  %m = select %c, (%score + %bias), -inf

Masks and other values over rows and keys are thus computed in the kernel. Values in memory, and values that are
expensive per element, become operands. Values that depend on the score are computed in f32, which only adds precision
to the narrower dtypes of the program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from meshgen.codegen.attention.layouts import Element, Layouts
from meshgen.codegen.expr import Expr, Var, constant
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.codegen.fusion.specialize import specialized
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value, is_float
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import ELEMENTWISE, EXPENSIVE, LAYOUT, LEAVING
from meshgen.ops.types.attention import POSITION, STATISTIC

_MOST_ELEMENTS = 1 << 22  # most elements of a constant array that is inspected. Chosen: bounds the compile time
_MOST_NODES = 96  # most nodes of a region; chosen: longer than typical masks and biases


class UnformedError(Exception):
    """The program has a form that the attention ops cannot express."""


class Elements:
    """Arguments of the regions of one attention: elements of operands in order of first use, and positions of factors."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        self.operands: dict[Element, TensorType] = {}
        self.positions: dict[str, None] = {}

    def operand(self, value: Value, index: Index) -> Element | None:
        """Make the value read at `index` an argument of the regions, and return it as an operand with one dim per loop.

        Returns None if the dims of the value are not plain loops.
        """
        element = self.layouts.element(value, index)
        if element is not None:
            self.operands.setdefault(element, value.type.with_shape(()))
        return element

    def kept(self) -> tuple[dict[Element, TensorType], dict[str, None]]:
        """Return a copy of the arguments recorded so far, for `restore`."""
        return {**self.operands}, {**self.positions}

    def restore(self, kept: tuple[dict[Element, TensorType], dict[str, None]]) -> None:
        """Reset the arguments to `kept`, a copy that the method `kept` returned."""
        self.operands, self.positions = kept


class Region:
    """A graph of scalars that is written backward, starting from its result.

    Args:
        elements: the arguments, which all regions of an attention share.
        stops: maps values to an index. Elements of these values at this index are the first arguments of the region, in
            f32.
        inside: the nodes that the region may copy, because they depend on the first arguments.
        skipped: maps nodes of `inside` to the position of an operand that replaces their result.
    """

    def __init__(self, elements: Elements, stops: Mapping[Value, Index], inside: Collection[Node], skipped: Mapping[Node, int] | None = None) -> None:  # fmt: skip
        self.elements, self.stops, self.inside, self.skipped = elements, stops, inside, skipped or {}
        self.producer = elements.layouts.producer
        self.graph = Graph("region")
        self.first = {value: Value(TensorType((), STATISTIC)) for value in stops}
        self.arguments: dict[Element | str, Value] = {}
        self._made: dict[tuple[Value, Index], Value] = {}

    def close(self, output: Value) -> Graph:
        """Return the finished graph, with the arguments of all regions, and with constants folded.

        Call this after all regions of the attention are written.
        """
        element_types = [(element, tensor_type) for element, tensor_type in self.elements.operands.items()]
        argument_types = [*element_types, *((name, POSITION) for name in self.elements.positions)]
        arguments = [self.arguments.get(key) or Value(tensor_type) for key, tensor_type in argument_types]
        graph = Graph("region", [*self.first.values(), *arguments], self.graph.nodes, [output])
        return specialized(graph)

    def assume(self, element: tuple[Value, Index], made: Value) -> None:
        """Use `made`, a value of the region, wherever the region needs `element`."""
        self._made[element] = made

    @property
    def made(self) -> Mapping[tuple[Value, Index], Value]:
        """Return the values of the region by the (value, index) whose element they are."""
        return self._made

    def element(self, value: Value, index: Index) -> Value:
        """Return the region's value for the element of `value` at `index`.

        Raises:
            UnformedError: the region cannot compute this element.
        """
        key = value, index
        if key not in self._made:
            self._made[key] = self._element(value, index)
        return self._made[key]

    def _element(self, value: Value, index: Index) -> Value:
        if value in self.stops:
            if index != self.stops[value]:
                raise UnformedError
            return self.first[value]
        self.elements.layouts.seen.setdefault(index)
        node = self.producer(value)
        if node is not None and node in self.skipped:
            return self.element(node.operands[self.skipped[node]], index)
        if node is not None and node in self.inside:
            return self._computed(node, index)
        if node is None or node.op in EXPENSIVE:
            return self._operand(value, index)
        size = len(self.graph.nodes)
        kept = self.elements.kept()
        try:
            return self._computed(node, index)
        except UnformedError:
            del self.graph.nodes[size:]
            alive = {
                *self.first.values(),
                *self.arguments.values(),
                *(v for inner in self.graph.nodes for v in inner.results),
            }
            self._made = {key: computed for key, computed in self._made.items() if computed in alive}
            self.elements.restore(kept)
            return self._operand(value, index)

    def _operand(self, value: Value, index: Index) -> Value:
        element = self.elements.operand(value, index)
        if element is None:
            raise UnformedError
        return self.arguments.setdefault(element, Value(value.type.with_shape(()), value.name))

    def _computed(self, node: Node, index: Index) -> Value:
        if len(self.graph.nodes) > _MOST_NODES or len(node.results) != 1 or node.option is not None:
            raise UnformedError
        builder = Builder(self.graph, node.loc)
        scalar_type = node.result.type.with_shape(())
        if is_constant(node):
            array = np.asarray(node.attrs.value)
            if array.size and (array == array.flat[0]).all():
                return builder.splat(array.flat[0], scalar_type)
            return self._position(builder, _ramp(array, index), scalar_type)
        if node.op == "iota":
            return self._position(builder, index[node.attrs.dim], scalar_type)
        if node.op in LAYOUT - LEAVING and node.op != "mask_padding":
            return self.element(node.operands[0], backward(node, index))
        if node.op not in ELEMENTWISE or node.regions:
            raise UnformedError
        operands = [self.element(v, index if v.type.rank else ()) for v in node.operands]
        if node in self.inside:
            operands = [self.wide(builder, value) for value in operands]
            scalar_type = TensorType((), STATISTIC) if is_float(scalar_type.dtype) else scalar_type
            if node.op == "convert" and operands[0].type == scalar_type:
                return operands[0]
        return builder.append(node.op, operands, [scalar_type], dict(node.attrs.given))[0]

    def wide(self, builder: Builder, value: Value) -> Value:
        """Return a float value converted to f32. Raises UnformedError for f64."""
        if not is_float(value.type.dtype) or value.type.dtype == STATISTIC:
            return value
        if value.type.dtype == "f64":
            raise UnformedError
        definition = next((node for node in self.graph.nodes if value in node.results), None)
        if is_constant(definition):
            return builder.splat(np.asarray(definition.attrs.value).astype(np.float32), TensorType((), STATISTIC))
        return builder.convert(value, STATISTIC)

    def _position(self, builder: Builder, expr: Expr, scalar_type: TensorType) -> Value:
        """Return the region's value for `expr`, a linear combination of positions."""
        total = builder.splat(expr.const, POSITION) if expr.const or not expr.terms else None
        for atom, factor in expr.terms:
            if not isinstance(atom, Var) or atom not in self.elements.layouts.names:
                raise UnformedError
            name = self.elements.layouts.names[atom]
            self.elements.positions.setdefault(name)
            value = self.arguments.setdefault(name, Value(POSITION, name))
            if factor != 1:
                value = builder.elementwise("multiply", value, builder.splat(factor, POSITION))
            total = value if total is None else builder.elementwise("add", total, value)
        assert total is not None, "a sum without terms is a constant"
        return builder.convert(total, scalar_type.dtype)


def _ramp(array: np.ndarray[Any, Any], index: Index) -> Expr:
    """Return the element at `index` of an array of evenly spaced integers (such as positions) as a linear expression.

    Raises UnformedError for any other array.
    """
    if array.dtype.kind not in "iu" or not 0 < array.size <= _MOST_ELEMENTS:
        raise UnformedError
    first = int(array.flat[0])
    evenly_spaced, total = np.full(array.shape, first, np.int64), constant(first)
    for dim, size in enumerate(array.shape):
        step = int(np.take(array, 1, dim).flat[0]) - first if size > 1 else 0
        evenly_spaced += step * np.arange(size).reshape([-1 if d == dim else 1 for d in range(array.ndim)])
        total += index[dim] * step
    if (
        not (evenly_spaced == array).all()
        or max(abs(int(evenly_spaced.min())), abs(int(evenly_spaced.max()))) >= 1 << 31
    ):
        raise UnformedError
    return total
