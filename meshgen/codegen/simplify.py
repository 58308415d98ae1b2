"""Constant folding, algebraic identities, common subexpressions and dead code, in two passes over a graph.

A value that is the same everywhere ("splat") is kept as a 0-d constant that is broadcast, so folding never
builds a big array. A value without elements is never computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.ccl import simulated
from meshgen.ccl.between import BETWEEN
from meshgen.codegen.fusion.space import POINTWISE
from meshgen.ir.evaluate.common import neutral
from meshgen.ir.evaluate.evaluator import evaluate_node
from meshgen.ir.graph import WISHES, Graph, Node, TensorType, Value, is_float
from meshgen.ir.regions import needed_nodes, rewired_graph

Array = np.ndarray[Any, Any]
COLLECTIVES = frozenset(simulated.COLLECTIVES) - {"all_slice", "to_partial"}  # those two do not communicate
_AWAITED = frozenset({"send", "recv", *BETWEEN})  # another device waits for these
_IMPURE = COLLECTIVES | {*WISHES, "kernel", "view"}
_FOLDED_ELEMENTS = 4096  # constants of more elements are not computed with


def simplify(graph: Graph) -> Graph:
    """An equal graph with less in it; inputs and outputs keep their number, order and types."""
    simplifier = _Simplifier(graph)
    for node in graph.nodes:
        simplifier.visit(node)
    return simplifier.finish()


class _Simplifier:
    """Nodes are copied one by one; what a node's result became is in `_now`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._out = Graph(graph.name, list(graph.inputs))
        self._now: dict[Value, Value] = {value: value for value in graph.inputs}
        self._made: dict[Value, Node] = {}
        self._known: dict[Any, Node] = {}
        self._splats: dict[Value, Array] = {}

    def visit(self, node: Node) -> None:
        operands = [self._now.get(v, v) for v in node.operands]
        if (found := self._replace(node, operands)) is not None:
            self._now[node.result] = found
            return
        copy = self._emit(node, operands)
        self._now.update(zip(node.results, copy.results, strict=True))

    def finish(self) -> Graph:
        self._out.outputs = [self._now[v] for v in self._graph.outputs]
        return without_dead_code(self._out)

    # ---- building

    def _emit(self, node: Node, operands: list[Value]) -> Node:
        """A copy of the node, or an earlier equal one."""
        pure = node.op not in _IMPURE and not node.regions
        key = (
            (node.op, tuple(operands), attribute_key(node.attrs), tuple(v.type for v in node.results)) if pure else None
        )
        if key is not None and key in self._known:
            return self._known[key]
        results = [Value(v.type, v.name, v.sharding, v.loc) for v in node.results]
        regions = tuple(rewired_graph(region, self._now) for region in node.regions)
        copy = Node(node.op, operands, results, dict(node.attrs), node.loc, node.sharding, regions)
        self._out.nodes.append(copy)
        self._made.update(dict.fromkeys(results, copy))
        if key is not None:
            self._known[key] = copy
        if node.op == "constant" and (number := _splat_of(node.attrs["value"])) is not None:
            self._splats[copy.result] = number
        if node.op == "broadcast_in_dim" and operands[0] in self._splats:
            self._splats[copy.result] = self._splats[operands[0]]
        return copy

    def _new(self, op: str, operands: list[Value], kind: TensorType, attrs: dict[str, Any], like: Node) -> Value:
        node = Node(op, operands, [Value(kind, like.result.name, loc=like.loc)], attrs, like.loc)
        return self._emit(node, operands).result

    def _splat(self, number: Array, kind: TensorType, like: Node) -> Value:
        """A constant of one number, broadcast where it has dims."""
        scalar = self._new("constant", [], TensorType((), kind.dtype), {"value": np.asarray(number).reshape(())}, like)
        if not kind.rank:
            return scalar
        return self._new("broadcast_in_dim", [scalar], kind, {"dims": ()}, like)

    # ---- replacing

    def _replace(self, node: Node, operands: list[Value]) -> Value | None:
        """What the only result can be instead, or None."""
        if len(node.results) != 1 or node.op in _IMPURE or node.regions:
            return None
        kind = node.result.type
        if None in kind.shape or any(None in v.type.shape for v in operands):
            return None
        if node.op == "constant":
            number = _splat_of(node.attrs["value"]) if kind.rank else None
            return None if number is None else self._splat(number, kind, node)
        if kind.size == 0 and node.op != "broadcast_in_dim":
            return self._splat(np.zeros((), kind.numpy_dtype), kind, node)
        if (number := self._fold(node, operands)) is not None:
            return self._splat(number, kind, node)
        rule = _RULES.get(node.op)
        return None if rule is None else rule(self, node, operands)

    def _fold(self, node: Node, operands: list[Value]) -> Array | None:
        """The number that the result has everywhere, if its operands are splats."""
        if node.op not in POINTWISE or node.op in ("to_partial", "bitcast_convert") or not operands:
            return None
        numbers = [self._splats.get(v) for v in operands]
        if any(n is None for n in numbers):
            return None
        scalar = Node(node.op, [Value(TensorType((), v.type.dtype)) for v in operands],
                      [Value(TensorType((), node.result.type.dtype))], node.attrs)  # fmt: skip
        with np.errstate(all="ignore"):
            return np.asarray(evaluate_node(scalar, [n for n in numbers if n is not None])[0])

    def is_splat(self, value: Value, number: float) -> bool:
        found = self._splats.get(value)
        return found is not None and bool(found == number)

    def source(self, value: Value, op: str) -> Node | None:
        """The node that makes the value, if it is an `op`."""
        node = self._made.get(value)
        return node if node is not None and node.op == op else None

    # ---- identities by op

    def _same_type(self, node: Node, operands: list[Value]) -> Value | None:
        return operands[0] if operands[0].type == node.result.type else None

    def _convert(self, node: Node, operands: list[Value]) -> Value | None:
        if operands[0].type == node.result.type:
            return operands[0]
        inner = self.source(operands[0], "convert")
        if inner is None or not _widens(inner.operands[0].type.dtype, operands[0].type.dtype):
            return None
        if inner.operands[0].type == node.result.type:
            return inner.operands[0]
        return self._new("convert", inner.operands, node.result.type, {}, node)

    def _reshape(self, node: Node, operands: list[Value]) -> Value | None:
        if operands[0].type == node.result.type:
            return operands[0]
        if operands[0] in self._splats:
            return self._splat(self._splats[operands[0]], node.result.type, node)
        if inner := self.source(operands[0], "reshape"):
            return self._reshape(node, inner.operands) or self._new(
                "reshape", inner.operands, node.result.type, {}, node
            )
        return None

    def _broadcast(self, node: Node, operands: list[Value]) -> Value | None:
        dims = tuple(node.attrs["dims"])
        if operands[0].type == node.result.type and dims == tuple(range(len(dims))):
            return operands[0]
        if operands[0] in self._splats and operands[0].type.rank:
            return self._splat(self._splats[operands[0]], node.result.type, node)
        if inner := self.source(operands[0], "broadcast_in_dim"):
            joined = tuple(dims[d] for d in inner.attrs["dims"])
            kept = [
                s for s, d in zip(inner.operands[0].type.sizes, joined, strict=True) if s != node.result.type.sizes[d]
            ]
            if all(s == 1 for s in kept):
                return self._broadcast_to(inner.operands, joined, node)
        return None

    def _broadcast_to(self, operands: list[Value], dims: tuple[int, ...], node: Node) -> Value:
        if operands[0].type == node.result.type and dims == tuple(range(len(dims))):
            return operands[0]
        return self._new("broadcast_in_dim", operands, node.result.type, {"dims": dims}, node)

    def _transpose(self, node: Node, operands: list[Value]) -> Value | None:
        perm = tuple(node.attrs["perm"])
        if perm == tuple(range(len(perm))):
            return operands[0]
        if operands[0] in self._splats:
            return self._splat(self._splats[operands[0]], node.result.type, node)
        if inner := self.source(operands[0], "transpose"):
            joined = tuple(inner.attrs["perm"][d] for d in perm)
            if joined == tuple(range(len(perm))):
                return inner.operands[0]
            return self._new("transpose", inner.operands, node.result.type, {"perm": joined}, node)
        return None

    def _slice(self, node: Node, operands: list[Value]) -> Value | None:
        if operands[0].type == node.result.type:
            return operands[0]
        if operands[0] in self._splats:
            return self._splat(self._splats[operands[0]], node.result.type, node)
        return None

    def _pad(self, node: Node, operands: list[Value]) -> Value | None:
        if operands[0].type.size == 0:
            return self._new("broadcast_in_dim", [operands[1]], node.result.type, {"dims": ()}, node)
        none = not (any(node.attrs["low"]) or any(node.attrs["high"]) or any(node.attrs["interior"]))
        return operands[0] if none else None

    def _concatenate(self, node: Node, operands: list[Value]) -> Value | None:
        full = [v for v in operands if v.type.size]
        if len(full) == 1:
            return full[0]
        if len(full) < len(operands):
            return self._new("concatenate", full, node.result.type, dict(node.attrs), node)
        return None

    def _reduce(self, node: Node, operands: list[Value]) -> Value | None:
        if operands[0].type.size == 0:
            return self._new("broadcast_in_dim", [operands[1]], node.result.type, {"dims": ()}, node)
        alone = all(operands[0].type.sizes[d] == 1 for d in node.attrs["dims"])
        if alone and self.is_splat(operands[1], neutral(node.attrs["kind"], operands[0].type.dtype).item()):
            return self._reshape(node, operands) or self._new("reshape", operands[:1], node.result.type, {}, node)
        return None

    def _dot(self, node: Node, operands: list[Value]) -> Value | None:
        if operands[0].type.size and operands[1].type.size:
            return None
        return self._splat(np.zeros((), node.result.type.numpy_dtype), node.result.type, node)

    def _add(self, node: Node, operands: list[Value]) -> Value | None:
        for this, other in ((0, 1), (1, 0)):
            number = self._splats.get(operands[this])
            # x + 0.0 differs from x in the sign of x = -0.0 only
            if number is not None and not number and operands[other].type == node.result.type:
                return operands[other]
        return None

    def _subtract(self, node: Node, operands: list[Value]) -> Value | None:
        return operands[0] if self.is_splat(operands[1], 0) else None

    def _multiply(self, node: Node, operands: list[Value]) -> Value | None:
        for this, other in ((0, 1), (1, 0)):
            if self.is_splat(operands[this], 1):
                return operands[other]
            if self.is_splat(operands[this], 0) and not is_float(node.result.type.dtype):
                return operands[this]
        return None

    def _divide(self, node: Node, operands: list[Value]) -> Value | None:
        number = self._splats.get(operands[1])
        if number is None:
            return None
        if number == 1:
            return operands[0]
        if is_float(node.result.type.dtype) and number and np.frexp(np.float64(number))[0] in (0.5, -0.5):
            inverse = (1 / np.asarray(number, np.float64)).astype(number.dtype)  # a power of two: exact
            if np.isfinite(inverse.astype(np.float64)) and inverse:
                return self._new(
                    "multiply", [operands[0], self._splat(inverse, operands[1].type, node)], node.result.type, {}, node
                )
        return None

    def _power(self, node: Node, operands: list[Value]) -> Value | None:
        if self.is_splat(operands[1], 1):
            return operands[0]
        if self.is_splat(operands[1], 2):
            return self._new("multiply", [operands[0], operands[0]], node.result.type, {}, node)
        return None

    def _extremum(self, node: Node, operands: list[Value]) -> Value | None:
        if operands[0] is operands[1]:
            return operands[0]
        for this, other in ((0, 1), (1, 0)):
            if self.is_splat(operands[this], neutral(node.op, node.result.type.dtype).item()):
                return operands[other]
        return None

    def _logical(self, node: Node, operands: list[Value]) -> Value | None:
        if operands[0] is operands[1]:
            return operands[0]
        for this, other in ((0, 1), (1, 0)):
            if node.result.type.dtype == "i1" and operands[this] in self._splats:
                decides = bool(self._splats[operands[this]]) == (node.op == "or")
                return operands[this] if decides else operands[other]
        return None

    def _select(self, node: Node, operands: list[Value]) -> Value | None:
        if operands[1] is operands[2]:
            return operands[1]
        number = self._splats.get(operands[0])
        return None if number is None else operands[1 if number else 2]

    def _alone(self, node: Node, operands: list[Value]) -> Value | None:
        """`to_partial` over no axes."""
        return operands[0] if not node.attrs["axes"] else None

    RULES: dict[str, Callable[[_Simplifier, Node, list[Value]], Value | None]] = {
        "convert": _convert, "reshape": _reshape, "broadcast_in_dim": _broadcast, "transpose": _transpose,
        "slice": _slice, "pad": _pad, "concatenate": _concatenate, "reduce": _reduce, "dot_general": _dot,
        "add": _add, "subtract": _subtract, "multiply": _multiply, "divide": _divide, "power": _power,
        "maximum": _extremum, "minimum": _extremum, "and": _logical, "or": _logical, "select": _select,
        "bitcast_convert": _same_type, "to_partial": _alone,
    }  # fmt: skip


_RULES = _Simplifier.RULES


def _splat_of(array: Array) -> Array | None:
    """The one number that an array consists of, as a 0-d array; None if it has several or is too big to look."""
    if array.ndim == 0:
        return array
    if array.size == 0:
        return np.zeros((), array.dtype)
    first = array.flat[0]
    same = array.size <= _FOLDED_ELEMENTS or array.flat[-1] == first
    if not same:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    parts = (np.real(flat), np.imag(flat)) if np.iscomplexobj(flat) else (flat,)
    is_same = bool((flat == first).all()) and not any(_has_minus_zero(part) for part in parts)
    return flat[0:1].reshape(()) if is_same else None


def _has_minus_zero(array: Any) -> bool:
    return bool(array[0] == 0 and np.signbit(array.astype(np.float64)).any())


def _widens(source: str, target: str) -> bool:
    """Whether every number of the source type is one of the target type."""
    exact = {"bf16": ("f32", "f64"), "f16": ("f32", "f64"), "f32": ("f64",), "i1": ("i8", "i16", "i32", "i64", "f32", "f64"),
             "i8": ("i16", "i32", "i64", "f32", "f64"), "i16": ("i32", "i64", "f32", "f64"), "i32": ("i64", "f64"),
             "ui8": ("ui16", "ui32", "ui64", "i16", "i32", "i64"), "f8E4M3FN": ("f32",), "f8E5M2": ("f32",)}  # fmt: skip
    return target in exact.get(source, ())


def attribute_key(value: Any) -> Any:
    """Attributes in a form that compares by value."""
    if isinstance(value, dict):
        return tuple((k, attribute_key(v)) for k, v in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(attribute_key(v) for v in value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    return type(value).__name__, value


def without_dead_code(graph: Graph) -> Graph:
    """The graph without nodes whose results nobody uses; every device drops the same collectives."""
    nodes = needed_nodes(graph.nodes, graph.outputs, lambda node: node.op in _AWAITED)
    return Graph(graph.name, list(graph.inputs), nodes, list(graph.outputs))
