"""Tensor dims of unknown size, and the program for given sizes.

Programs are read with them, but every later stage computes shapes, so sizes must be given before propagation.
The sizes of the inputs determine all others: types are inferred again, operation by operation.
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
from meshgen.sizes.size_ops import KnownSizes
from meshgen.sizes.ties import Ties, ties_of
from meshgen.spec import Sharding

SIZE_QUERIES = with_trait(Trait.SIZE_QUERY)


def input_names(graph: Graph) -> list[str]:
    """The user's names of the inputs."""
    return [value.name or f"arg{number}" for number, value in enumerate(graph.inputs)]


def output_names(graph: Graph) -> list[str]:
    """The user's names of the outputs."""
    count = len(graph.outputs)
    return ["result"] if count == 1 else [f"result.{number}" for number in range(count)]


def refuse_unknown_dims(module: Module) -> None:
    """Raise ProgramError (MG0208) if tensor dims have unknown sizes: those of the inputs, else of results."""
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


def _unknown(what: str, kind: TensorType, loc: Location | None, hint: str) -> Diagnostic:
    dims = [str(d) for d, size in enumerate(kind.shape) if size is None]
    many = "sizes of dims" if len(dims) > 1 else "size of dim"
    return Diagnostic(
        "MG0208",
        f"{what} is {kind}: the {many} {', '.join(dims)} {'are' if len(dims) > 1 else 'is'} unknown",
        loc,
        hint=hint,
    )


def _collective_shape(node: Node, x: TensorType, mesh: Mesh) -> list[int]:
    """The result shape of a collective: unchanged for global types; local dims grow or shrink by the group size."""
    shape, count = list(x.sizes), mesh.group_size(node.attrs.axes)
    if node.result.sharding is None:
        grows, shrinks = changed_dims(node)
        if grows is not None and grows != shrinks:
            shape[grows] *= count
        if shrinks is not None and grows != shrinks:
            shape[shrinks] = -(-shape[shrinks] // count)
    return shape


def _example(kind: TensorType) -> str:
    return "x".join(str(size or 8) for size in kind.shape)


def given_types(graph: Graph, shapes: Mapping[str, Sequence[int | None]]) -> list[TensorType]:
    """The types of the inputs with these shapes, by name; None leaves a size as the program has it.

    Raises UsageError MG0001 for names that no input has and shapes that do not fit.
    """
    names, kinds = input_names(graph), [value.type for value in graph.inputs]
    faults = [
        Diagnostic("MG0001", f"unknown input '{name}'", hint=f"the inputs are {', '.join(names)}")
        for name in shapes
        if name not in names
    ]
    for number, name in enumerate(names):
        if name not in shapes:
            continue
        have, wanted = kinds[number], kinds[number].with_shape(shapes[name])
        if shapes_agree(wanted.shape, have.shape):
            kinds[number] = have.with_shape(known(wanted.shape, have.shape))
        else:
            text = f"input '{name}' is {have}, not {wanted}"
            hint = "a shape can only set sizes that are open (?) in the program"
            faults.append(Diagnostic("MG0001", text, graph.inputs[number].loc, hint=hint))
    if faults:
        raise UsageError(*faults)
    return kinds


def with_shapes(module: Module, shapes: Mapping[str, Sequence[int | None]]) -> Module:
    """The program for inputs of these shapes, by name; known sizes must agree.

    Raises:
        UsageError: MG0001 for names that no input has and shapes that do not fit.
        ProgramError: MG0104 where a given size contradicts the program, MG0208 where one stays open.
    """
    graph = module.graph
    wanted = given_types(graph, shapes)
    kinds = [
        _remembered(name, value.type, kind) if None in value.type.shape and None not in kind.shape else kind
        for name, value, kind in zip(input_names(graph), graph.inputs, wanted, strict=True)
    ]
    ties = ties_of(graph)
    given = [Value(kind) for kind in kinds]
    writer = _TypedGraphWriter(module.mesh, ties)
    result = writer.graph(graph, given, {})
    if writer.faults:  # a later use of a value may determine its size
        writer = _TypedGraphWriter(module.mesh, ties)
        result = writer.graph(graph, given, {})
    if faults := writer.known.refused or writer.faults:
        raise ProgramError(*faults)
    return at_mesh(replace(module, graph=result), module.mesh)


def at_mesh(module: Module, mesh: Mesh) -> Module:
    """The module for a mesh of known sizes; the global types of a program on local tensors follow from them."""
    module = replace(module, mesh=mesh)
    if mesh.is_static and any(node.op == "axis_size" for node in all_nodes(module.graph)):
        module = replace(module, graph=_with_axis_sizes(module.graph, mesh))
    if module.stage != "partition" or not mesh.is_static:
        return module
    ins, outs = (_grown(*each, mesh) for each in _signatures(module))
    return replace(module, in_types=ins, out_types=outs)


def _with_axis_sizes(graph: Graph, mesh: Mesh) -> Graph:
    """The graph with constants for its queries of mesh axis sizes."""

    def written(node: Node) -> Node:
        if node.op != "axis_size":
            return replace(node, regions=tuple(_with_axis_sizes(region, mesh) for region in node.regions))
        number = np.asarray(mesh.group_size(node.attrs.axes), np.int64)
        return replace(node, op="constant", attrs={"value": number})

    return Graph(graph.name, graph.inputs, [written(node) for node in graph.nodes], graph.outputs)


def at_meshes(module: Module, meshes: Sequence[Mesh]) -> Module:
    """As `at_mesh`, for a program on one mesh or several."""
    if len(meshes) == 1:
        return at_mesh(replace(module, meshes=tuple(meshes) if module.meshes else ()), meshes[0])
    return replace(module, mesh=meshes[0], meshes=tuple(meshes))


def has_open_results(module: Module) -> bool:
    """Whether results have unknown sizes, or ops query sizes, although those of all inputs are known."""
    if any(None in value.type.shape for value in module.graph.inputs):
        return False
    return any(None in v.type.shape for v in module.graph.values()) or any(
        node.op in SIZE_QUERIES for node in all_nodes(module.graph)
    )


def _signatures(module: Module) -> Iterator[tuple[list[TensorType], list[Sharding], list[Value]]]:
    yield module.in_types, module.in_shardings, module.graph.inputs
    yield module.out_types, module.out_shardings, module.graph.outputs


def _grown(types: list[TensorType], shardings: list[Sharding], values: list[Value], mesh: Mesh) -> list[TensorType]:
    """Global types with their unknown sizes from those of the local values: as many rows as all tiles have."""
    found: list[TensorType] = []
    for kind, sharding, value in zip(types, shardings, values, strict=True):
        sizes = (None if n is None else n * sharding.parts(d, mesh) for d, n in enumerate(value.type.shape))
        found.append(kind.with_shape(new if old is None else old for old, new in zip(kind.shape, sizes, strict=True)))
    return found


def _remembered(name: str, open_kind: TensorType, given: TensorType) -> TensorType:
    """The type with the sizes that were open named after the input: `x_0` is dim 0 of x."""
    pairs = enumerate(zip(open_kind.shape, given.sizes, strict=False))
    return given.with_shape(Dim.named(f"{name}_{dim}", new) if old is None else new for dim, (old, new) in pairs)


@dataclass
class _TypedGraphWriter:
    """Rewrites graphs with the types inferred from those of their inputs; collects faults."""

    mesh: Mesh
    ties: Ties
    known: KnownSizes = field(default_factory=KnownSizes)

    @property
    def faults(self) -> list[Diagnostic]:
        return self.known.faults

    def graph(
        self, old: Graph, given: Sequence[Value], outer: Mapping[Value, Value], kept: Sequence[bool] = ()
    ) -> Graph:
        """The graph over inputs of the types of `given`; where `kept` says so they are these values."""
        kinds = [value.type for value in given]
        inputs = [Value(kind, v.name, v.sharding, v.loc, id=v.id) for v, kind in zip(old.inputs, kinds, strict=True)]
        for number, is_kept in enumerate(kept):
            if is_kept:
                self.known.same(given[number], inputs[number])
        new = Graph(old.name, inputs)
        put = {**outer, **dict(zip(old.inputs, inputs, strict=True))}
        for value, kind in zip(old.inputs, kinds, strict=True):
            self.ties.learn(value, kind)
        for node in old.nodes:
            written = self._node(node, [put[value] for value in node.operands], put)
            if written is not None:
                new.nodes.append(written)
                put.update(zip(node.results, written.results, strict=True))
        new.outputs = [put[value] for value in old.outputs]
        return new

    def _node(self, old: Node, operands: list[Value], put: Mapping[Value, Value]) -> Node | None:
        """The rewritten node, or the static form of one with size operands; None for an assertion that holds."""
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
        """Types of the results: inferred, or declared where the op leaves them to the program or inference fails."""
        declared = [value.type for value in node.results]
        if node.op in SIZE_QUERIES or any(None in kind.shape for kind in operands):  # its fault is already reported
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
        found = [kind.with_shape(new.shape) for kind, new in zip(declared, inferred, strict=True)]
        faults = [fault for pair in zip(declared, found, strict=True) if (fault := _type_fault(node, *pair))]
        self.faults.extend(faults)
        return declared if faults else found


def _passes_on(node: Node, number: int) -> bool:
    """Whether an input of a node's regions always equals the operand of the node there."""
    if not is_loop(node):
        return True
    body = node.regions[1]
    return body.outputs[number] is body.inputs[number]


def _type_fault(node: Node, declared: TensorType, found: TensorType) -> Diagnostic | None:
    """The fault of an inferred result type, if any."""
    if None in found.shape:
        return _unknown(f"the result of '{node.op}'", found, node.loc, "write its size in the program")
    if not shapes_agree(declared.shape, found.shape):
        return Diagnostic(
            "MG0104",
            f"'{node.op}' has result type {found} for these sizes, but the program declares {declared}",
            node.loc,
        )
    return None


def _completed(node: Node, x: TensorType | None, result: TensorType, mesh: Mesh) -> TensorType:
    """A result whose type the op leaves to the program, with sizes from its operand where they follow from it."""
    if x is None or None not in result.shape:
        return result
    shape = list(result.shape)
    if node.op in COLLECTIVES and "axes" in node.attrs.given:
        shape = _collective_shape(node, x, mesh)
    elif node.op == "broadcast_in_dim":
        for size, dim in zip(x.shape, node.attrs.dims, strict=True):
            shape[dim] = size if shape[dim] is None and size != 1 else shape[dim]
    elif node.op == "reshape":
        known = math.prod(size for size in shape if size is not None)
        if shape.count(None) == 1 and known and x.size % known == 0:
            shape[shape.index(None)] = math.prod(x.sizes) // known
    elif node.op in ("convert", "bitcast_convert"):  # bits of one element may be several along a last dim
        shape[: x.rank] = x.shape[: result.rank]
    return result.with_shape(shape)
