"""Printer of MLIR text: the state of printing the graphs of one module.

The record of each dialect (`dialect.py`) has one function per op that prints a node. It returns the left-hand side, the
name of the operation, and then the text that the `read` method of the operation's class parses.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh
from meshgen.mlir.dense import ELEMENT_NAMES
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import dictionary
from meshgen.mlir.shard.attributes import split_text
from meshgen.runtime.module_file.resources import Resources
from meshgen.spec import Sharding

_NAME = re.compile(r"[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*")


class TextPrinter:
    """Prints the functions of a module. Values keep the names that they have in the graph.

    A name that the function already uses gets a suffix, and a numeric name becomes the next free number. If `resources`
    is not None, large constants are stored in it and the text refers to them.
    """

    def __init__(self, module: Module, dialects: Dialect, resources: Resources | None, depth: int) -> None:
        self.module = module
        self.dialects = dialects
        self.resources = resources
        self.mesh = module.mesh  # the mesh of nodes and shardings that do not name a mesh
        self.newline = "\n" + "  " * depth
        self.enter(Graph(""))

    def enter(self, graph: Graph) -> None:
        """Start a function: names are unique within one function, so forget those of the previous one."""
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._number = 0
        self._suffixes: dict[str, int] = {}
        self._preferred: dict[Value, str] = {}
        members = {node.result: node.operands[0] for node in all_nodes(graph) if node.op == "sharding_group"}
        # `sharding_group` has no result in the text. Its operand is printed under the name of the result; if an operand
        # is in several groups, under the name of the last result.
        for result, value in members.items():
            while value in members:
                value = members[value]
            self._preferred[value] = result.name

    # Names and types of values.

    def name(self, value: Value) -> str:
        """Return the name of a value in the text, such as `%name`. The first call for a value assigns the name."""
        return self._names.get(value) or self.define(value)

    def define(self, value: Value) -> str:
        """Assign a new unique name to a value. A value of a region that is printed twice gets a new name each time."""
        name = self._names[value] = f"%{self.new_name(self._preferred.get(value, value.name))}"
        return name

    def share_name(self, value: Value, name: str) -> None:
        """Use the name of another value, `name`, also for `value`."""
        self._names[value] = name

    def names(self, values: Iterable[Value]) -> list[str]:
        return [self.name(value) for value in values]

    def results(self, node: Node) -> str:
        """Return the left-hand side of a node, such as `%a, %b = `, or "" for a node without results."""
        return f"{', '.join([self.define(value) for value in node.results])} = " if node.results else ""

    def type(self, value: Value) -> str:
        """Return the tensor type of a value, with its sharding as the encoding."""
        return tensor_text(value.type, value.sharding, self.mesh.name)

    def types(self, values: Iterable[Value]) -> list[str]:
        mesh = self.mesh.name
        return [tensor_text(value.type, value.sharding, mesh) for value in values]

    def argument(self, value: Value) -> str:
        """Return the text `%a: type` that declares the block argument `value`."""
        return f"{self.define(value)}: {self.type(value)}"

    # Lines.

    def line(self, node: Node) -> str:
        """Return the text of a node."""
        write = self.dialects.writers[node.op]
        if not self.module.meshes:
            return write(self, node)
        with self.over(self.mesh_of_node(node)):
            return write(self, node)

    def attributes(self, node: Node, operation_attributes: Mapping[str, str] | None = None) -> str:
        """Return ` {name = value}`: the attributes in `operation_attributes` and those that any node may have, such as
        notes.
        """
        attributes = {**operation_attributes} if operation_attributes else {}
        for write in self.dialects.node_attr_writers:
            attributes |= write(self, node)
        return f" {dictionary(attributes)}" if attributes else ""

    def region(self, graph: Graph, end: str = "stablehlo.return", names: Sequence[str] | None = None) -> str:
        """Return `{...}`: the nodes of the region and a terminator of the name `end`.

        The region's inputs are printed as block arguments. If `names` is given, they are printed under these names
        instead.
        """
        header = ""
        if names is not None:
            for value, name in zip(graph.inputs, names, strict=True):
                self.share_name(value, name)
        elif graph.inputs:
            header = f"{self.newline}^bb0({', '.join(map(self.argument, graph.inputs))}):"
        return f"{{{header}{self.block(graph, end)}{self.newline}}}"

    def block(self, graph: Graph, end: str) -> str:
        """Return the nodes of a graph and its terminator. Each is on a line of its own and follows a line break."""
        outer, self.newline = self.newline, f"{self.newline}  "
        lines = ["", *[self.line(node) for node in graph.nodes], self._end(end, graph.outputs)]
        text = self.newline.join(lines)
        self.newline = outer
        return text

    def _end(self, name: str, values: Sequence[Value]) -> str:
        """Return the terminator with the name `name`, such as `stablehlo.return %a : type`."""
        return f"{name} {', '.join(self.names(values))} : {', '.join(self.types(values))}" if values else name

    def function(self, graph: Graph, head: str, arguments: Sequence[str], results: str, attributes: str) -> str:
        """Return the text of a function, such as `func.func public @main(%a: type {...}) -> type attributes {...}
        {...}`.

        Args:
            head: the text up to the name of the function.
            arguments: the text of the attributes of each argument.
            results: the text of the result types and their attributes.
        """
        self.enter(graph)
        texts = [
            f"{self.argument(value)}{attributes_text}"
            for value, attributes_text in zip(graph.inputs, arguments, strict=True)
        ]
        return f"{head}({', '.join(texts)}){results}{attributes} {{{self.block(graph, 'func.return')}{self.newline}}}"

    # Meshes.

    def mesh_of(self, sharding: Sharding) -> Mesh:
        """Return the mesh that a sharding names, or the default mesh if it names none."""
        return next((mesh for mesh in self.module.meshes if mesh.name == sharding.mesh), self.mesh)

    @contextmanager
    def over(self, mesh: Mesh) -> Generator[None]:
        """Make `mesh` the default mesh inside the context."""
        outer, self.mesh = self.mesh, mesh
        try:
            yield
        finally:
            self.mesh = outer

    def mesh_of_node(self, node: Node) -> Mesh:
        """Return the mesh that the node's shardings name: the first one among the results, then among the operands.

        Returns the default mesh if no sharding names one.
        """
        shardings = (value.sharding for value in (*node.results, *node.operands))
        return self.mesh_of(next((sharding for sharding in shardings if sharding and sharding.mesh), Sharding(())))

    # Names.

    def new_name(self, preferred: str) -> str:
        """Reserve a name, without `%`, that is unique in the function. It is `preferred` if that is free."""
        taken = self._taken
        if preferred in taken if preferred.isdecimal() and preferred.isascii() else not _NAME.fullmatch(preferred):
            preferred = self._free_number()
        elif preferred in taken:
            preferred = self._suffixed(preferred)
        taken.add(preferred)
        return preferred

    def _free_number(self) -> str:
        while (name := str(self._number)) in self._taken:
            self._number += 1
        return name

    def _suffixed(self, preferred: str) -> str:
        stem = re.sub(r"_\d+$", "", preferred) or preferred
        while True:
            suffix = self._suffixes[stem] = self._suffixes.get(stem, -1) + 1
            if (name := f"{stem}_{suffix}") not in self._taken:
                return name


@lru_cache(1 << 12)
def tensor_text(kind: TensorType, sharding: Sharding | None = None, mesh: str = "") -> str:
    """Return the text of a tensor type, such as `tensor<8x?xf32, #meshgen.split<@mesh, [["dp"], []]>>`."""
    sizes = "".join("?x" if size is None else f"{size}x" for size in kind.shape)
    encoding = f", {split_text(sharding, mesh)}" if sharding else ""
    return f"tensor<{sizes}{ELEMENT_NAMES.get(kind.dtype, kind.dtype)}{encoding}>"
