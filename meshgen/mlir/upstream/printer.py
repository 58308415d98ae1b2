"""Printer of one program in upstream's dialects.

One function per op adds the lines for a node. After propagation, every operand and result of a node is annotated with
its sharding, as in the output of `mlir-opt --sharding-propagation`:

    %0 = shard.shard %x to %rows annotate_for_users : tensor<8x16xf32>
    %1 = linalg.map { math.tanh } ins(%0 : tensor<8x16xf32>) outs(...)
    %2 = shard.shard %1 to %rows : tensor<8x16xf32>
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from meshgen.errors import Diagnostic, Location
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value
from meshgen.ir.regions import all_nodes
from meshgen.mlir.dense import element_text
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import dictionary, listed, quoted
from meshgen.mlir.printer import TextPrinter, tensor_text
from meshgen.mlir.shard.grid import has_sub_axes
from meshgen.mlir.shard.sharding import definition_text
from meshgen.mlir.upstream.element_types import element, fill_text, signless, signless_array
from meshgen.mlir.upstream.inexpressible import NO_OPERATION, OPEN_SIZES, PARTIAL_SUMS, Inexpressible
from meshgen.mlir.upstream.scalar_operands import scalar_constants
from meshgen.ops.precision import TF32, TF32X3, multiplied_as
from meshgen.spec import Sharding

# Stages at which propagation has chosen shardings and types are still global
PLANNED = ("propagate", "materialize", "optimize")
_SLICES = ("slice", "dynamic_slice", "dynamic_update_slice", "pad")
_HINT = "print it without --dialect upstream; --skip PASS leaves out a pass that forms such operations, for example form-attention"

Write = Callable[["UpstreamPrinter", Node], None]


class UpstreamPrinter(TextPrinter):
    """A printer that collects the lines of a function, and a fault for each node that cannot be expressed."""

    def __init__(self, module: Module, writers: Mapping[str, Write]) -> None:
        super().__init__(module, Dialect(), None, 1)
        self.faults: list[Diagnostic] = []
        self.is_planned = module.stage in PLANNED
        self._writers = writers
        self._constants = {node.result: node for node in all_nodes(module.graph) if node.op == "constant"}
        self._scalar_constants = scalar_constants(module.graph, self._constants)
        self._lines: list[str] = []
        self._handles: dict[str, str] = {}

    # Lines.

    def emit(self, line: str) -> None:
        self._lines.append(line)

    def temporary(self, text: str) -> str:
        """Add a line with the operation `text`, and return the name of its result."""
        name = f"%{self.new_name('')}"
        self.emit(f"{name} = {text}")
        return name

    def scope(self, write: Callable[[], None]) -> str:
        """Return the text of a region `{...}` that contains the lines which `write` adds."""
        outer = self._lines, self._handles, self.newline
        self._lines, self._handles, self.newline = [], dict(self._handles), f"{self.newline}  "
        write()
        text = self.newline.join(["", *self._lines])
        self._lines, self._handles, self.newline = outer
        return f"{{{text}{self.newline}}}"

    def write(self, node: Node) -> None:
        """Add the lines for a node, or a fault if it cannot be expressed."""
        if not self.guarded(f"'{node.op}'", node.loc, lambda: self._write(node)):
            for value in node.results:
                self.define(value)

    def _write(self, node: Node) -> None:
        if node.op not in self._writers:
            raise Inexpressible(NO_OPERATION)
        with self.over(self.mesh_of_node(node)):
            # Upstream rejects slices without elements, so print an empty tensor instead.
            if node.op in _SLICES and 0 in node.result.type.shape:
                self.assign(node, f"tensor.empty() : {self.type(node.result)}")
            else:
                self._writers[node.op](self, node)

    def guarded(self, what: str, loc: Location | None, write: Callable[[], None]) -> bool:
        """Call `write`. If it raises Inexpressible, record a fault about `what` at `loc`. Returns whether it succeeded."""
        try:
            write()
        except Inexpressible as reason:
            message = f"{what} cannot be expressed in upstream's dialects: {reason}"
            self.faults.append(Diagnostic("MG0103", message, loc, hint=_HINT))
            return False
        return True

    def write_nodes(self, graph: Graph) -> None:
        for node in graph.nodes:
            if node.op != "constant" or node.result not in self._scalar_constants:
                self.write(node)

    # Operands and results of nodes.

    def type(self, value: Value) -> str:
        return tensor_text(signless(value.type))

    def types(self, values: Iterable[Value]) -> list[str]:
        return [self.type(value) for value in values]

    def operand(self, node: Node, number: int) -> str:
        """Return the name of operand `number`. After propagation, it is first annotated with the sharding that the node
        needs.
        """
        value = node.operands[number]
        if not self.is_planned or node.sharding is None:
            return self.name(value)
        sharding = node.sharding.operands[number]
        if sharding.partial:
            raise Inexpressible(f"it takes a partial sum, and {PARTIAL_SUMS}")
        return self.shard(self.name(value), signless(value.type), sharding, for_users=True)

    def alias(self, node: Node, name: str) -> None:
        """Give the result of a node the name of an existing value. After propagation, it is first annotated with its
        sharding.
        """
        if self.is_planned and node.sharding is not None and node.sharding.results != node.sharding.operands[:1]:
            name = self.shard(name, signless(node.result.type), node.sharding.results[0], for_users=True)
        self.share_name(node.result, name)

    def assign(self, node: Node, text: str) -> None:
        """Add the operation `text` as the definition of the node's results. After propagation, these are annotated."""
        if not self.is_planned or node.sharding is None:
            self.emit(f"{', '.join(self.define(value) for value in node.results)} = {text}")
            return
        names = [f"%{self.new_name('')}" for _ in node.results]
        self.emit(f"{', '.join(names)} = {text}")
        for name, value, sharding in zip(names, node.results, node.sharding.results, strict=True):
            self.share_name(value, self.shard(name, signless(value.type), sharding, value.name))

    def empty(self, node: Node, kind: TensorType | None = None) -> str:
        """Return the name of an uninitialized tensor, the destination of a result of the node.

        Its type is `kind`, by default that of the first result.
        """
        kind = kind or signless(node.results[0].type)
        if None in kind.shape:
            raise Inexpressible(OPEN_SIZES)
        return self._destination(node, kind, self.temporary(f"tensor.empty() : {tensor_text(kind)}"))

    def filled(self, node: Node, number: str, kind: TensorType) -> str:
        """Return the name of a tensor of type `kind` filled with the scalar `number`, the destination of a result of
        the node.
        """
        return self._destination(node, kind, self.temporary(fill_text(number, self.empty(node, kind), kind)))

    def _destination(self, node: Node, kind: TensorType, name: str) -> str:
        """Return the name of a destination tensor. After propagation, if it has the result's shape, it is annotated
        like the result.
        """
        if not self.is_planned or node.sharding is None or kind.shape != node.results[0].type.shape:
            return name
        sharding = node.sharding.results[0]
        return self.shard(self.shard(name, kind, sharding), kind, sharding, for_users=True)

    # Scalars.

    def number(self, value: object, dtype: str) -> str:
        """Add a constant scalar and return its name."""
        kind, array = signless_array(np.asarray(value).astype(DTYPES[dtype]), TensorType((), dtype))
        text = element_text(array[()], kind.dtype)
        return self.temporary(f"arith.constant {text}" + ("" if dtype == "i1" else f" : {element(dtype)}"))

    def scalar(self, value: Value) -> str:
        """Return the name of the element of the 0-d tensor `value`, as a scalar."""
        if (node := self._constants.get(value)) is not None:
            return self.number(node.attrs.value, value.type.dtype)
        return self.temporary(f"tensor.extract {self.name(value)}[] : {self.type(value)}")

    def index(self, value: Value) -> str:
        """Return the name of the element of the 0-d tensor `value`, cast to an index."""
        cast = "index_castui" if value.type.dtype.startswith("ui") else "index_cast"
        return self.temporary(f"arith.{cast} {self.scalar(value)} : {element(value.type.dtype)} to index")

    # Shardings.

    def shard(
        self, name: str, kind: TensorType, sharding: Sharding, result: str = "", *, for_users: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> str:  # fmt: skip
        """Add an annotation of the value `name`, and return the name of the annotated value.

        Axes along which the value is unreduced are omitted, since upstream's annotations cannot state them.
        """
        sharding = replace(sharding, partial=())
        mesh = self.mesh_of(sharding)
        if has_sub_axes(sharding.used_axes, mesh):
            raise Inexpressible(f"its sharding {sharding} is over a part of a mesh axis")
        for axes in sharding.dims if any(sharding.offsets) else ():
            parts = [mesh.axis_size(axis) for axis in axes]
            if math.prod(parts) != sum(parts) and axes:
                raise Inexpressible(f"LLVM 22 expects {sum(parts) + 1} offsets for a dim over {', '.join(axes)}")
        definition = definition_text(sharding, kind.shape, mesh)
        if definition not in self._handles:
            self._handles[definition] = self.temporary(definition)
        text = f"shard.shard {name} to {self._handles[definition]}{' annotate_for_users' if for_users else ''}"
        annotated = f"%{self.new_name(result)}"
        self.emit(f"{annotated} = {text}{f' {dictionary(attributes)}' if attributes else ''} : {tensor_text(kind)}")
        return annotated

    def discardable(self, node: Node) -> str:
        """Return ` {...}` with attributes that upstream ignores.

        These are the user's option (the mesh axes of each loop), and a reduced precision of a GEMM or convolution.
        """
        attributes: dict[str, str] = {}
        if node.option is not None and not self.is_planned:
            names = () if self.module.meshes else self.mesh.names
            axes = [[f"{names.index(a)} : i64" if a in names else quoted(a) for a in loop] for loop in node.option]
            attributes["sharding"] = listed(map(listed, axes))
        if node.op in ("dot_general", "convolution") and multiplied_as(node) in (TF32, TF32X3):
            attributes["precision"] = listed(map(quoted, node.attrs.precision or ("DEFAULT", "DEFAULT")))
        return f" {dictionary(attributes)}" if attributes else ""
