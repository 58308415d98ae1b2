"""Random programs with open sizes. All sizes are computed from the sizes of the inputs at run time, as in JAX exports.

`get_dimension_size` reads sizes of inputs; sizes of results are computed from them and passed to the dynamic forms of
ops. Attributes without a dynamic form stay constant, so a program may be valid only for some sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value
from meshgen.ir.symbols import Dim, Expr, Floor, names_in
from meshgen.mesh import Mesh, split_ref
from meshgen.sharding.unknown_axes import axis_references
from meshgen.sizes.size_ops import SHAPE, STATIC
from meshgen.testing.generators.shardings import MAX_DEVICES
from meshgen.testing.generators.writer import MAX_ELEMENTS, MAX_SIZE, Writer

_SCALAR = TensorType((), "i32")
# maximum number of trials of a program. Chosen: the sizes for which the program was generated, and four other sets
TRIALS = 5


@dataclass(frozen=True)
class Trial:
    """A set of sizes to try: the sizes of the open mesh axes, and the shapes of the inputs with open dims."""

    axes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class OpenProgram:
    """A program with open sizes. It is valid for the sizes of the first trial, and may be invalid for the others."""

    module: Module
    closed: Module
    trials: tuple[Trial, ...]


def opened(module: Module, writer: Writer) -> OpenProgram:
    """Return the program with open sizes for the named dims of its inputs and for some mesh axes."""
    opening = _Opening(module.graph, writer)
    graph = opening.written()
    named_sizes = {name: size for value in module.graph.inputs for name, size in _names(value.type).items()}
    mesh = _open_mesh(module, writer)
    axes = [axis.name for axis in mesh.axes if axis.size is None]
    trials = [_trial(opening.inputs, named_sizes, {name: module.mesh.axis_size(name) for name in axes})]
    for _ in range(TRIALS - 1):
        sizes = {name: 0 if writer.chance(0.1) else writer.integer(1, MAX_SIZE + 1) for name in named_sizes}
        trial = _trial(opening.inputs, sizes, _axis_sizes(mesh, writer))
        if all(np.prod(shape) <= MAX_ELEMENTS for shape in trial.shapes.values()):
            trials.append(trial)
    annotations = [*module.in_annotations, *[None] * (len(graph.inputs) - len(module.in_annotations))]
    return OpenProgram(replace(module, mesh=mesh, graph=graph, in_annotations=annotations), module, tuple(trials))


def _names(type_: TensorType) -> dict[str, int]:
    """Return the size of each dim of the type whose size is a single name, by that name."""
    sizes: dict[str, int] = {}
    for size in type_.sizes:
        names = list(names_in(size)) if isinstance(size, Dim) else []
        if len(names) == 1 and isinstance(size, Dim) and size.expr == Expr.symbol(names[0]):
            sizes[names[0]] = int(size)
    return sizes


def _trial(kinds: Mapping[str, TensorType], sizes: Mapping[str, int], axes: Mapping[str, int]) -> Trial:
    shapes = {
        name: tuple(Expr.of(size).at(sizes) for size in type_.sizes) for name, type_ in kinds.items() if _is_open(type_)
    }
    return Trial(axes, shapes)


def _is_open(type_: TensorType) -> bool:
    return any(names_in(size) for size in type_.sizes)


def _open_mesh(module: Module, writer: Writer) -> Mesh:
    """Return the mesh with some axes open. Axes that the program splits into sub-axes stay closed."""
    split_axes = {split_ref(ref)[0] for ref, _ in axis_references(module) if split_ref(ref)[2] is not None}
    names = [axis for axis in module.mesh.names if axis not in split_axes and writer.chance(0.5)]
    return module.mesh.with_sizes(dict.fromkeys(names))


def _axis_sizes(mesh: Mesh, writer: Writer) -> dict[str, int]:
    """Return random sizes of the open axes that keep the number of devices within its usual limit."""
    count, sizes = int(np.prod([axis.size or 1 for axis in mesh.axes])), dict[str, int]()
    for axis in mesh.axes:
        if axis.size is None:
            sizes[axis.name] = writer.integer(1, min(4, MAX_DEVICES // count) + 1)
            count *= sizes[axis.name]
    return sizes


@dataclass
class _Opening:
    """Rewrites a graph for open sizes.

    Attributes:
        put: value of the old graph -> corresponding value of the new graph.
        inputs: types of the inputs, with names of sizes.
        computed_sizes: size expression -> value that computes it.
    """

    old: Graph
    writer: Writer
    new: Graph = field(init=False)
    put: dict[Value, Value] = field(default_factory=dict[Value, Value])
    inputs: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    computed_sizes: dict[str, Value] = field(default_factory=dict[str, Value])

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
                self.computed_sizes.setdefault(str(size.expr), self._dimension_size(self.put[value], dim))
        return self.put[value]

    def _dimension_size(self, value: Value, dim: int) -> Value:
        return self.new.add("get_dimension_size", [value], [_SCALAR], {"dim": dim}).result

    def _assert(self, name: str) -> None:
        """Append an assertion that a size is not negative."""
        attrs = {"direction": "GE", "compare_type": ""}
        holds = self.new.add(
            "compare",
            [self.computed_sizes[name], self._size_number(0)],
            [TensorType((), "i1")],
            attrs,
            name=f"{name}_holds",
        )
        self.new.add("shape_assertion", [holds.result, self.computed_sizes[name]], [], {"message": f"{name} is {{0}}"})

    def _nodes(self, old: Graph, new: Graph) -> None:
        for node in old.nodes:
            regions = tuple(self._region(region) for region in node.regions)
            rewritten = self._node(node, [self.put[v] for v in node.operands], new)
            if rewritten is not None:
                rewritten.regions = regions
                new.nodes.append(rewritten)
                self.put.update(zip(node.results, rewritten.results, strict=True))

    def _region(self, old: Graph) -> Graph:
        new = Graph(old.name, [Value(_opened(v.type), v.name) for v in old.inputs])
        self.put.update(zip(old.inputs, new.inputs, strict=True))
        self._nodes(old, new)
        new.outputs = [self.put[v] for v in old.outputs]
        return new

    def _node(self, node: Node, operands: list[Value], new: Graph) -> Node | None:
        """Return the new node, with open types and in dynamic form if needed, or None if an input replaces the node."""
        results = [replace(value, type=_opened(value.type)) for value in node.results]
        plain = Node(node.op, operands, results, _attrs_as_numbers(node.attrs), sharding=node.sharding)
        form = _FORMS.get(node.op)
        if node.op == "constant" and _is_open(node.result.type):
            return self._constant(node, results[0], new)
        if form is None or not self._needs_dynamic_form(node):
            return plain
        op, names = form
        dropped = {*names, "low", "high"} if "padding" in names else {*names}
        attrs = {name: value for name, value in plain.attrs.given.items() if name not in dropped}
        lists = [self._list(_sizes_in(node.attrs, name)) for name in names] or [self._list(node.result.type.sizes)]
        if "padding" in names:
            pairs = TensorType((lists[-1].type.sizes[0] // 2, 2), "i32")
            lists[-1] = self.new.add("reshape", [lists[-1]], [pairs]).result
        return replace(plain, op=op, operands=[*operands, *lists], attrs=attrs)

    def _needs_dynamic_form(self, node: Node) -> bool:
        """Whether to use the dynamic form of an op: always if it is necessary, and sometimes if it is not."""
        if names := _FORMS[node.op][1]:
            sizes = [n for name in names for n in _sizes_in(node.attrs, name)]
            return any(names_in(n) for n in sizes) or self.writer.chance(0.5)
        if not _is_open(node.result.type):
            return False
        sizes = node.result.type.sizes
        if node.op == "broadcast_in_dim":
            new_dims = [d for d, n in enumerate(sizes) if names_in(n) and d not in node.attrs.dims]
            expanded_dims = [d for d, n in zip(node.attrs.dims, node.operands[0].type.sizes, strict=True) if n == 1 and names_in(sizes[d])]  # fmt: skip
            return bool(new_dims or expanded_dims) or self.writer.chance(0.3)
        if node.op == "reshape":
            return sum(bool(names_in(n)) for n in sizes) > 1 or self.writer.chance(0.5)
        return True

    def _constant(self, node: Node, result: Value, new: Graph) -> Node | None:
        """Return a broadcast of a uniform constant with open sizes, or replace any other constant by an input."""
        array, type_ = np.asarray(node.attrs.value), node.result.type
        if array.size and (array == array.flat[0]).all():
            scalar = TensorType((), type_.dtype)
            one = new.add("constant", [], [scalar], {"value": np.array(array.flat[0], DTYPES[type_.dtype])})
            operands = [one.result, self._list(type_.sizes)]
            return Node("dynamic_broadcast_in_dim", operands, [result], {"dims": ()})
        self.new.inputs.append(self._input(node.result, f"constant{len(self.new.inputs)}"))
        return None

    def _list(self, sizes: Sequence[int]) -> Value:
        """Return a value that holds the sizes in a 1-D tensor."""
        one, type_ = TensorType((1,), "i32"), TensorType((len(sizes),), "i32")
        if not any(names_in(size) for size in sizes):
            return self.new.add("constant", [], [type_], {"value": np.array([int(n) for n in sizes], np.int32)}).result
        rows = [self.new.add("reshape", [self._size(Expr.of(size))], [one]).result for size in sizes]
        return self.new.add("concatenate", rows, [type_], {"dim": 0}).result if len(rows) > 1 else rows[0]

    def _size(self, expr: Expr) -> Value:
        """Return a size as a value that is computed from input sizes."""
        text = str(expr)
        if text not in self.computed_sizes:
            terms = [self._product(factors, count) for factors, count in expr.terms]
            self.computed_sizes[text] = self._folded("add", terms or [self._size_number(0)])
        return self.computed_sizes[text]

    def _product(self, factors: Sequence[str | Floor], count: int) -> Value:
        values = [self.computed_sizes[f] if isinstance(f, str) else self._quotient(f) for f in factors]
        return self._folded("multiply", [*values, self._size_number(count)] if count != 1 or not values else values)

    def _quotient(self, floor: Floor) -> Value:
        """Return a quotient rounded down.

        `divide` rounds towards zero, so a negative remainder is first made positive.
        """
        dividend, divisor = self._size(floor.top), self._size(floor.bottom)
        if all(count > 0 for _, count in floor.top.terms):
            return self._folded("divide", [dividend, divisor])
        remainder = self._folded(
            "remainder", [self._folded("add", [self._folded("remainder", [dividend, divisor]), divisor]), divisor]
        )
        return self._folded("divide", [self._folded("subtract", [dividend, remainder]), divisor])

    def _folded(self, op: str, values: Sequence[Value]) -> Value:
        result = values[0]
        for value in values[1:]:
            result = self.new.add(op, [result, value], [_SCALAR]).result
        return result

    def _size_number(self, number: int) -> Value:
        return self.new.add("constant", [], [_SCALAR], {"value": np.array(number, np.int32)}).result


# op -> its dynamic form, and the attributes that become operands; an empty tuple stands for the result sizes
_FORMS = {static: (op, () if names == SHAPE else names) for op, (static, names) in STATIC.items()}


def _sizes_in(attrs: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """Return the sizes that become an operand of a dynamic form; `padding` has a pair for each dim."""
    if name == "padding":
        return tuple(n for pair in zip(attrs["low"], attrs["high"], strict=True) for n in pair)
    return attrs[name]


def _opened(type_: TensorType) -> TensorType:
    return type_.with_shape(None if names_in(size) else int(size) for size in type_.sizes)


def _attrs_as_numbers(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes with sizes as plain integers."""
    return {name: _number_of(value) for name, value in attrs.items()}


def _number_of(value: Any) -> Any:
    if isinstance(value, Dim):
        return int(value)
    if isinstance(value, tuple):
        return tuple(_number_of(item) for item in cast("tuple[Any, ...]", value))
    return value
