"""A random program whose sizes have names, with these sizes open: what follows from them is computed as JAX exports it.

Sizes of results are asked of inputs (`get_dimension_size`), calculated, and given to the dynamic forms of ops; attributes
that are sizes and have no such form stay numbers, so that a program may hold for some sizes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value
from meshgen.ir.symbols import Dim, Expr, Floor, names_in
from meshgen.mesh import Mesh, split_ref
from meshgen.sharding.unknown import axis_references
from meshgen.sizes.size_ops import SHAPE, STATIC
from meshgen.testing.generators.shardings import MAX_DEVICES
from meshgen.testing.generators.writer import MAX_ELEMENTS, MAX_SIZE, Writer

_SCALAR = TensorType((), "i32")
TRIALS = 5  # at most, sets of sizes of a program (chosen: the sizes at which it was drawn, and four others)


@dataclass(frozen=True)
class Trial:
    """Sizes to try: of the open mesh axes, and shapes of the inputs with open dims."""

    axes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class OpenProgram:
    """A program with open sizes. It holds for the first of the trials, for others perhaps."""

    module: Module
    closed: Module
    trials: tuple[Trial, ...]


def opened(module: Module, writer: Writer) -> OpenProgram:
    """The program with the named dims of its inputs open, and some of its mesh axes."""
    opening = _Opening(module.graph, writer)
    graph = opening.written()
    own = {name: size for value in module.graph.inputs for name, size in _names(value.type).items()}
    mesh = _open_mesh(module, writer)
    axes = [axis.name for axis in mesh.axes if axis.size is None]
    trials = [_trial(opening.inputs, own, {name: module.mesh.axis_size(name) for name in axes})]
    for _ in range(TRIALS - 1):
        sizes = {name: 0 if writer.chance(0.1) else writer.integer(1, MAX_SIZE + 1) for name in own}
        trial = _trial(opening.inputs, sizes, _axis_sizes(mesh, writer))
        if all(np.prod(shape) <= MAX_ELEMENTS for shape in trial.shapes.values()):
            trials.append(trial)
    annotations = [*module.in_annotations, *[None] * (len(graph.inputs) - len(module.in_annotations))]
    return OpenProgram(replace(module, mesh=mesh, graph=graph, in_annotations=annotations), module, tuple(trials))


def _names(kind: TensorType) -> dict[str, int]:
    """The sizes of the type that are a name."""
    found: dict[str, int] = {}
    for size in kind.sizes:
        names = list(names_in(size)) if isinstance(size, Dim) else []
        if len(names) == 1 and isinstance(size, Dim) and size.expr == Expr.symbol(names[0]):
            found[names[0]] = int(size)
    return found


def _trial(kinds: Mapping[str, TensorType], sizes: Mapping[str, int], axes: Mapping[str, int]) -> Trial:
    shapes = {
        name: tuple(Expr.of(size).at(sizes) for size in kind.sizes) for name, kind in kinds.items() if _is_open(kind)
    }
    return Trial(axes, shapes)


def _is_open(kind: TensorType) -> bool:
    return any(names_in(size) for size in kind.sizes)


def _open_mesh(module: Module, writer: Writer) -> Mesh:
    """Some axes open: of those of which the program names no parts."""
    cut = {split_ref(ref)[0] for ref, _ in axis_references(module) if split_ref(ref)[2] is not None}
    names = [axis for axis in module.mesh.names if axis not in cut and writer.chance(0.5)]
    return module.mesh.with_sizes(dict.fromkeys(names))


def _axis_sizes(mesh: Mesh, writer: Writer) -> dict[str, int]:
    """Sizes of the open axes for which the number of devices stays within its usual limit."""
    count, found = int(np.prod([axis.size or 1 for axis in mesh.axes])), dict[str, int]()
    for axis in mesh.axes:
        if axis.size is None:
            found[axis.name] = writer.integer(1, min(4, MAX_DEVICES // count) + 1)
            count *= found[axis.name]
    return found


@dataclass
class _Opening:
    """Writes a graph again.

    `inputs` are the types of its inputs, with the names of sizes; `known` the sizes that were calculated, by their expression.
    """

    old: Graph
    writer: Writer
    new: Graph = field(init=False)
    put: dict[Value, Value] = field(default_factory=dict[Value, Value])
    inputs: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    known: dict[str, Value] = field(default_factory=dict[str, Value])

    def written(self) -> Graph:
        self.new = Graph(self.old.name)
        for value in self.old.inputs:
            self.new.inputs.append(self._input(value, value.name))
        if names := [name for value in self.old.inputs for name in _names(value.type)]:
            self._assert(self.writer.one_of(names))
        self._nodes(self.old, self.new)
        self.new.outputs = [self.put[value] for value in self.old.outputs]
        return self.new

    def _input(self, value: Value, name: str) -> Value:
        self.put[value] = Value(_opened(value.type), name)
        self.inputs[name] = value.type
        for dim, size in enumerate(value.type.sizes):
            if isinstance(size, Dim) and len(size.expr.terms) == 1 and str(size.expr) in _names(value.type):
                self.known.setdefault(str(size.expr), self._asked(self.put[value], dim))
        return self.put[value]

    def _asked(self, value: Value, dim: int) -> Value:
        return self.new.add("get_dimension_size", [value], [_SCALAR], {"dim": dim}).result

    def _assert(self, name: str) -> None:
        """That a size is not negative."""
        attrs = {"direction": "GE", "compare_type": ""}
        holds = self.new.add(
            "compare", [self.known[name], self._size_number(0)], [TensorType((), "i1")], attrs, name=f"{name}_holds"
        )
        self.new.add("shape_assertion", [holds.result, self.known[name]], [], {"message": f"{name} is {{0}}"})

    def _nodes(self, old: Graph, new: Graph) -> None:
        for node in old.nodes:
            regions = tuple(self._region(region) for region in node.regions)
            made = self._node(node, [self.put[v] for v in node.operands], new)
            if made is not None:
                made.regions = regions
                new.nodes.append(made)
                self.put.update(zip(node.results, made.results, strict=True))

    def _region(self, old: Graph) -> Graph:
        new = Graph(old.name, [Value(_opened(v.type), v.name) for v in old.inputs])
        self.put.update(zip(old.inputs, new.inputs, strict=True))
        self._nodes(old, new)
        new.outputs = [self.put[v] for v in old.outputs]
        return new

    def _node(self, node: Node, operands: list[Value], new: Graph) -> Node | None:
        """The node with open types, in its dynamic form where it needs one; None: it became an input."""
        results = [replace(value, type=_opened(value.type)) for value in node.results]
        plain = Node(node.op, operands, results, _attrs_as_numbers(node.attrs), sharding=node.sharding)
        form = _FORMS.get(node.op)
        if node.op == "constant" and _is_open(node.result.type):
            return self._constant(node, results[0], new)
        if form is None or not self._is_asked(node):
            return plain
        op, names = form
        gone = {*names, "low", "high"} if "padding" in names else {*names}
        attrs = {name: value for name, value in plain.attrs.given.items() if name not in gone}
        lists = [self._list(_sizes_in(node.attrs, name)) for name in names] or [self._list(node.result.type.sizes)]
        if "padding" in names:
            pairs = TensorType((lists[-1].type.sizes[0] // 2, 2), "i32")
            lists[-1] = self.new.add("reshape", [lists[-1]], [pairs]).result
        return replace(plain, op=op, operands=[*operands, *lists], attrs=attrs)

    def _is_asked(self, node: Node) -> bool:
        """Whether an op must be told sizes; one that need not may be, all the same."""
        if names := _FORMS[node.op][1]:
            sizes = [n for name in names for n in _sizes_in(node.attrs, name)]
            return any(names_in(n) for n in sizes) or self.writer.chance(0.5)
        if not _is_open(node.result.type):
            return False
        sizes = node.result.type.sizes
        if node.op == "broadcast_in_dim":
            made = [d for d, n in enumerate(sizes) if names_in(n) and d not in node.attrs.dims]
            wide = [d for d, n in zip(node.attrs.dims, node.operands[0].type.sizes, strict=True) if n == 1 and names_in(sizes[d])]  # fmt: skip
            return bool(made or wide) or self.writer.chance(0.3)
        if node.op == "reshape":
            return sum(bool(names_in(n)) for n in sizes) > 1 or self.writer.chance(0.5)
        return True

    def _constant(self, node: Node, result: Value, new: Graph) -> Node | None:
        """A number made wide, or an input in place of many."""
        array, kind = np.asarray(node.attrs.value), node.result.type
        if array.size and (array == array.flat[0]).all():
            scalar = TensorType((), kind.dtype)
            one = new.add("constant", [], [scalar], {"value": np.array(array.flat[0], DTYPES[kind.dtype])})
            operands = [one.result, self._list(kind.sizes)]
            return Node("dynamic_broadcast_in_dim", operands, [result], {"dims": ()})
        self.new.inputs.append(self._input(node.result, f"constant{len(self.new.inputs)}"))
        return None

    def _list(self, sizes: Sequence[int]) -> Value:
        """A list of sizes."""
        one, kind = TensorType((1,), "i32"), TensorType((len(sizes),), "i32")
        if not any(names_in(size) for size in sizes):
            return self.new.add("constant", [], [kind], {"value": np.array([int(n) for n in sizes], np.int32)}).result
        rows = [self.new.add("reshape", [self._size(Expr.of(size))], [one]).result for size in sizes]
        return self.new.add("concatenate", rows, [kind], {"dim": 0}).result if len(rows) > 1 else rows[0]

    def _size(self, expr: Expr) -> Value:
        """A size that is calculated from those of inputs."""
        text = str(expr)
        if text not in self.known:
            terms = [self._product(factors, count) for factors, count in expr.terms]
            self.known[text] = self._folded("add", terms or [self._size_number(0)])
        return self.known[text]

    def _product(self, factors: Sequence[str | Floor], count: int) -> Value:
        values = [self.known[f] if isinstance(f, str) else self._quotient(f) for f in factors]
        return self._folded("multiply", [*values, self._size_number(count)] if count != 1 or not values else values)

    def _quotient(self, floor: Floor) -> Value:
        """Rounded down, where `divide` rounds to zero: what `remainder` leaves below zero is made positive first."""
        top, bottom = self._size(floor.top), self._size(floor.bottom)
        if all(count > 0 for _, count in floor.top.terms):
            return self._folded("divide", [top, bottom])
        rest = self._folded(
            "remainder", [self._folded("add", [self._folded("remainder", [top, bottom]), bottom]), bottom]
        )
        return self._folded("divide", [self._folded("subtract", [top, rest]), bottom])

    def _folded(self, op: str, values: Sequence[Value]) -> Value:
        result = values[0]
        for value in values[1:]:
            result = self.new.add(op, [result, value], [_SCALAR]).result
        return result

    def _size_number(self, number: int) -> Value:
        return self.new.add("constant", [], [_SCALAR], {"value": np.array(number, np.int32)}).result


# By op: its dynamic form, and what its operands are lists of; none: of the result's sizes.
_FORMS = {static: (op, () if names == SHAPE else names) for op, (static, names) in STATIC.items()}


def _sizes_in(attrs: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """The sizes that an operand of a dynamic form lists: `padding` has a pair for each dim."""
    if name == "padding":
        return tuple(n for pair in zip(attrs["low"], attrs["high"], strict=True) for n in pair)
    return attrs[name]


def _opened(kind: TensorType) -> TensorType:
    return kind.with_shape(None if names_in(size) else int(size) for size in kind.sizes)


def _attrs_as_numbers(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes without names of sizes."""
    return {name: _number_of(value) for name, value in attrs.items()}


def _number_of(value: Any) -> Any:
    if isinstance(value, Dim):
        return int(value)
    if isinstance(value, tuple):
        return tuple(_number_of(each) for each in cast("tuple[Any, ...]", value))
    return value
