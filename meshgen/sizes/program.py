"""Tensor dims of unknown size, and the specialization of a program for sizes that the user gives.

A program may be read with unknown sizes, but every stage from propagation on computes shapes and needs all sizes. The
sizes of the inputs determine all others: result types are inferred again, operation by operation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from meshgen.errors import Diagnostic, Location, ProgramError, UsageError
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.predicates import is_control, is_loop
from meshgen.ir.regions import all_nodes
from meshgen.ir.symbols import Dim
from meshgen.mesh import Mesh
from meshgen.ops.classes import COLLECTIVES
from meshgen.ops.collective_checks import changed_dims
from meshgen.ops.op import Trait
from meshgen.ops.registry import with_trait
from meshgen.ops.types.inference import infer_types
from meshgen.ops.types.site import known, shapes_agree
from meshgen.sizes.size_classes import SizeClasses, size_classes_of
from meshgen.sizes.size_ops import KnownSizes
from meshgen.spec import Sharding

SIZE_QUERIES = with_trait(Trait.SIZE_QUERY)


def input_names(graph: Graph) -> list[str]:
    """Return the names of the graph's inputs in the user's program; an unnamed input is called `arg0`, `arg1`, ..."""
    return [value.name or f"arg{number}" for number, value in enumerate(graph.inputs)]


def output_names(graph: Graph) -> list[str]:
    """Return the names of the graph's outputs in messages: `result`, or `result.0`, `result.1`, ..."""
    count = len(graph.outputs)
    return ["result"] if count == 1 else [f"result.{number}" for number in range(count)]


def require_known_dims(module: Module) -> None:
    """Raise ProgramError if the size of an input, a result or a mesh axis is unknown, or a size operand is not folded.

    These four groups are checked in turn, and only the faults of the first invalid group are reported.
    """
    faults = [
        _unknown(f"input '{name}'", value.type, value.loc, f"give it with --shape {name}={_example(value.type)}")
        for name, value in zip(input_names(module.graph), module.graph.inputs, strict=True)
        if None in value.type.shape
    ]
    if not faults:
        faults = [
            _unknown(
                f"result %{value.name or '?'} of '{node.op}'", value.type, node.loc, "write its size in the program"
            )
            for node in module.graph.nodes
            for value in node.results
            if None in value.type.shape
        ]
    if not faults:
        faults = [
            Diagnostic(
                "MG0201",
                f"the program queries the size of mesh axis '{axis}', which is unknown",
                node.loc,
                hint="give it with --mesh",
            )
            for node in all_nodes(module.graph)
            if node.op == "axis_size"
            for axis in node.attrs.axes
            if module.mesh.axis(axis).size is None
        ]
    if not faults:
        hint = "compile or lower the program, or give it shapes: both fold sizes"
        faults = [
            Diagnostic("MG0208", f"'{node.op}' has size operands that are not folded yet", node.loc, hint=hint)
            for node in all_nodes(module.graph)
            if node.op in SIZE_QUERIES
        ]
    if faults:
        raise ProgramError(*faults)


def _unknown(subject: str, tensor_type: TensorType, loc: Location | None, hint: str) -> Diagnostic:
    dims = [str(d) for d, size in enumerate(tensor_type.shape) if size is None]
    noun = "sizes of dims" if len(dims) > 1 else "size of dim"
    return Diagnostic(
        "MG0208",
        f"{subject} is {tensor_type}: the {noun} {', '.join(dims)} {'are' if len(dims) > 1 else 'is'} unknown",
        loc,
        hint=hint,
    )


def _collective_shape(node: Node, x: TensorType, mesh: Mesh) -> list[int]:
    """Return the result shape of a collective: unchanged for global types, scaled by the group size for local types."""
    shape, count = list(x.sizes), mesh.group_size(node.attrs.axes)
    if node.result.sharding is None:
        grows, shrinks = changed_dims(node)
        if grows is not None and grows != shrinks:
            shape[grows] *= count
        if shrinks is not None and grows != shrinks:
            shape[shrinks] = -(-shape[shrinks] // count)
    return shape


def _example(tensor_type: TensorType) -> str:
    return "x".join(str(size or 8) for size in tensor_type.shape)


def types_with_shapes(graph: Graph, shapes: Mapping[str, Sequence[int | None]]) -> list[TensorType]:
    """Return the types of all inputs with the unknown sizes replaced by those in `shapes` (input name -> shape).

    A size of None in `shapes` leaves the size in the program unchanged.

    Raises:
        UsageError: MG0001 for an unknown input name and for a shape that contradicts the program.
    """
    names, kinds = input_names(graph), [value.type for value in graph.inputs]
    faults = [
        Diagnostic("MG0001", f"unknown input '{name}'", hint=f"the inputs are {', '.join(names)}")
        for name in shapes
        if name not in names
    ]
    for index, name in enumerate(names):
        if name not in shapes:
            continue
        actual, wanted = kinds[index], kinds[index].with_shape(shapes[name])
        if shapes_agree(wanted.shape, actual.shape):
            kinds[index] = actual.with_shape(known(wanted.shape, actual.shape))
        else:
            text = f"input '{name}' is {actual}, not {wanted}"
            hint = "a shape can only set sizes that are open (?) in the program"
            faults.append(Diagnostic("MG0001", text, graph.inputs[index].loc, hint=hint))
    if faults:
        raise UsageError(*faults)
    return kinds


def with_shapes(module: Module, shapes: Mapping[str, Sequence[int | None]]) -> Module:
    """Specialize the program for the input shapes in `shapes`, by input name. Sizes in the program must agree with
    them.

    Raises:
        UsageError: MG0001 for an unknown input name and for a shape that contradicts the input's type.
        ProgramError: MG0104 if a size contradicts the program, MG0208 if a size stays unknown.
    """
    graph = module.graph
    requested_types = types_with_shapes(graph, shapes)
    input_types = [
        _remembered(name, value.type, kind) if None in value.type.shape and None not in kind.shape else kind
        for name, value, kind in zip(input_names(graph), graph.inputs, requested_types, strict=True)
    ]
    ties = size_classes_of(graph)
    arguments = [Value(kind) for kind in input_types]
    writer = _TypedGraphWriter(module.mesh, ties)
    result = writer.graph(graph, arguments, {})
    # A value's later use may determine a size that the first run needed, so a second run can succeed.
    if writer.faults:
        writer = _TypedGraphWriter(module.mesh, ties)
        result = writer.graph(graph, arguments, {})
    if faults := writer.known.refused or writer.faults:
        raise ProgramError(*faults)
    return at_mesh(replace(module, graph=result), module.mesh)


def at_mesh(module: Module, mesh: Mesh) -> Module:
    """Specialize the module for a mesh of known sizes. For a program on local tensors, also determine the global types."""
    module = replace(module, mesh=mesh)
    if mesh.is_static and any(node.op == "axis_size" for node in all_nodes(module.graph)):
        module = replace(module, graph=_with_axis_sizes(module.graph, mesh))
    if module.stage != "partition" or not mesh.is_static:
        return module
    ins, outs = (_grown(*each, mesh) for each in _signatures(module))
    return replace(module, in_types=ins, out_types=outs)


def _with_axis_sizes(graph: Graph, mesh: Mesh) -> Graph:
    """Replace `axis_size` ops by constants."""

    def rewrite(node: Node) -> Node:
        if node.op != "axis_size":
            return replace(node, regions=tuple(_with_axis_sizes(region, mesh) for region in node.regions))
        group_size = np.asarray(mesh.group_size(node.attrs.axes), np.int64)
        return replace(node, op="constant", attrs={"value": group_size})

    return Graph(graph.name, graph.inputs, [rewrite(node) for node in graph.nodes], graph.outputs)


def at_meshes(module: Module, meshes: Sequence[Mesh]) -> Module:
    """Specialize the module for one mesh or several of known sizes (see `at_mesh`)."""
    if len(meshes) == 1:
        return at_mesh(replace(module, meshes=tuple(meshes) if module.meshes else ()), meshes[0])
    return replace(module, mesh=meshes[0], meshes=tuple(meshes))


def has_open_results(module: Module) -> bool:
    """Whether a result size is unknown, or an op queries a size, although the sizes of all inputs are known."""
    if any(None in value.type.shape for value in module.graph.inputs):
        return False
    return any(None in v.type.shape for v in module.graph.values()) or any(
        node.op in SIZE_QUERIES for node in all_nodes(module.graph)
    )


def _signatures(module: Module) -> Iterator[tuple[list[TensorType], list[Sharding], list[Value]]]:
    yield module.in_types, module.in_shardings, module.graph.inputs
    yield module.out_types, module.out_shardings, module.graph.outputs


def _grown(types: list[TensorType], shardings: list[Sharding], values: list[Value], mesh: Mesh) -> list[TensorType]:
    """Return the global types with unknown sizes replaced by the local size times the number of tiles along the dim."""
    grown: list[TensorType] = []
    for global_type, sharding, value in zip(types, shardings, values, strict=True):
        sizes = (None if n is None else n * sharding.parts(d, mesh) for d, n in enumerate(value.type.shape))
        grown.append(
            global_type.with_shape(
                new if old is None else old for old, new in zip(global_type.shape, sizes, strict=True)
            )
        )
    return grown


def _remembered(name: str, open_kind: TensorType, static_type: TensorType) -> TensorType:
    """Return the static type. Sizes that are unknown in `open_kind` become symbolic: `x_0` for dim 0 of input `x`."""
    pairs = enumerate(zip(open_kind.shape, static_type.sizes, strict=False))
    return static_type.with_shape(Dim.named(f"{name}_{dim}", new) if old is None else new for dim, (old, new) in pairs)


@dataclass
class _TypedGraphWriter:
    """Copies graphs, infers the result types again from known input types, and collects faults."""

    mesh: Mesh
    ties: SizeClasses
    known: KnownSizes = field(default_factory=KnownSizes)

    @property
    def faults(self) -> list[Diagnostic]:
        return self.known.faults

    def graph(
        self, old: Graph, given: Sequence[Value], outer: Mapping[Value, Value], kept: Sequence[bool] = ()
    ) -> Graph:
        """Copy graph `old` with inputs that have the types of `given`, the program's arguments or the operands of a
        node.

        Args:
            outer: original value -> its copy, for values that a region captures.
            kept: for each input, whether it always equals the value in `given`, so that a known constant carries over.
        """
        types = [value.type for value in given]
        inputs = [Value(kind, v.name, v.sharding, v.loc, id=v.id) for v, kind in zip(old.inputs, types, strict=True)]
        for index, is_kept in enumerate(kept):
            if is_kept:
                self.known.same(given[index], inputs[index])
        new = Graph(old.name, inputs)
        copies = {**outer, **dict(zip(old.inputs, inputs, strict=True))}
        for value, kind in zip(old.inputs, types, strict=True):
            self.ties.learn(value, kind)
        for node in old.nodes:
            copy = self._node(node, [copies[value] for value in node.operands], copies)
            if copy is not None:
                new.nodes.append(copy)
                copies.update(zip(node.results, copy.results, strict=True))
        new.outputs = [copies[value] for value in old.outputs]
        return new

    def _node(self, old: Node, operands: list[Value], put: Mapping[Value, Value]) -> Node | None:
        """Return the copied node, the static form of a node with size operands, or None for an assertion that holds."""
        node: Node | None = replace(old, operands=operands)
        if old.op in SIZE_QUERIES and (node := self.known.static(old, operands)) is None:
            return None
        regions = node.regions
        if is_control(node):
            inner = operands if is_loop(node) else operands[1:]
            kept = [_passes_on(node, number) for number in range(len(inner))]
            regions = tuple(self.graph(region, inner, put, kept) for region in regions)
        types = self._types(node, [value.type for value in node.operands], regions)
        results = [Value(t, v.name, v.sharding, v.loc, id=v.id) for t, v in zip(types, node.results, strict=True)]
        for value, kind in zip(old.results, types, strict=True):
            self.ties.learn(value, kind)
        return self.known.folded(replace(node, results=results, regions=regions), old.op in SIZE_QUERIES)

    def _types(self, node: Node, operands: Sequence[TensorType], regions: tuple[Graph, ...]) -> list[TensorType]:
        """Return the inferred result types, or the declared ones if the op has no inference or inference fails."""
        declared = [value.type for value in node.results]
        # A fault of the operand's producer was reported already.
        if node.op in SIZE_QUERIES or any(None in kind.shape for kind in operands):
            return declared
        try:
            inferred = infer_types(node.op, node.attrs, operands, regions, node.loc)
        except ProgramError as error:
            self.faults.extend(error.diagnostics)
            return declared
        if inferred is None:
            first = operands[0] if operands else None
            inferred = [
                self.ties.completed(value, _completed(node, first, value.type, self.mesh)) for value in node.results
            ]
        result_types = [kind.with_shape(new.shape) for kind, new in zip(declared, inferred, strict=True)]
        faults = [fault for pair in zip(declared, result_types, strict=True) if (fault := _type_fault(node, *pair))]
        self.faults.extend(faults)
        return declared if faults else result_types


def _passes_on(node: Node, index: int) -> bool:
    """Whether argument `index` of a node's regions always equals the operand. For a loop: in every iteration."""
    if not is_loop(node):
        return True
    body = node.regions[1]
    return body.outputs[index] is body.inputs[index]


def _type_fault(node: Node, declared: TensorType, inferred: TensorType) -> Diagnostic | None:
    """Return a fault if the inferred result type has unknown sizes, or contradicts the type that the program declares."""
    if None in inferred.shape:
        return _unknown(f"the result of '{node.op}'", inferred, node.loc, "write its size in the program")
    if not shapes_agree(declared.shape, inferred.shape):
        return Diagnostic(
            "MG0104",
            f"'{node.op}' has result type {inferred} for these sizes, but the program declares {declared}",
            node.loc,
        )
    return None


def _completed(node: Node, x: TensorType | None, result: TensorType, mesh: Mesh) -> TensorType:
    """Determine unknown result sizes from the first operand, for ops whose result type the program must declare."""
    if x is None or None not in result.shape:
        return result
    shape = list(result.shape)
    if node.op in COLLECTIVES and "axes" in node.attrs.given:
        shape = _collective_shape(node, x, mesh)
    elif node.op == "broadcast_in_dim":
        for size, dim in zip(x.shape, node.attrs.dims, strict=True):
            shape[dim] = size if shape[dim] is None and size != 1 else shape[dim]
    elif node.op == "reshape":
        known_elements = math.prod(size for size in shape if size is not None)
        if shape.count(None) == 1 and known_elements and x.size % known_elements == 0:
            shape[shape.index(None)] = math.prod(x.sizes) // known_elements
    # If a bitcast turns one element into several, they lie along a new last dim.
    elif node.op in ("convert", "bitcast_convert"):
        shape[: x.rank] = x.shape[: result.rank]
    return result.with_shape(shape)
