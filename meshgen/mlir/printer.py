"""The printer of MLIR text, from graphs: the state of printing one module.

The record of each dialect (`dialect.py`) has a writer for each op, which gives the text of a node: its results, the name of
the operation, and the rest in the form that the class of the operation parses.
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
    """Prints the functions of a module. Values are called by the names they have in the graph.

    A name that is taken already in the function gets a suffix, a number the next free one. With `resources`, large constants go
    there, and the text refers to them.
    """

    def __init__(self, module: Module, dialects: Dialect, resources: Resources | None, depth: int) -> None:
        self.module = module
        self.dialects = dialects
        self.resources = resources
        self.mesh = module.mesh  # of what names none
        self.newline = "\n" + "  " * depth
        self._enter(Graph(""))

    def _enter(self, graph: Graph) -> None:
        """Names of a function do not meet those of another."""
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._number = 0
        self._suffixes: dict[str, int] = {}
        self._preferred: dict[Value, str] = {}
        members = {node.result: node.operands[0] for node in all_nodes(graph) if node.op == "sharding_group"}
        for result, value in members.items():  # a value of a group is called as the last one that says that it is of it
            while value in members:
                value = members[value]
            self._preferred[value] = result.name

    # Values and types.

    def name(self, value: Value) -> str:
        """`%name`"""
        return self._names.get(value) or self.define(value)

    def define(self, value: Value) -> str:
        """Give a value its name in the text, which is new also where a region is printed again."""
        name = self._names[value] = f"%{self.new_name(self._preferred.get(value, value.name))}"
        return name

    def share_name(self, value: Value, name: str) -> None:
        """Let a value print under a name that another one has."""
        self._names[value] = name

    def names(self, values: Iterable[Value]) -> list[str]:
        return [self.name(value) for value in values]

    def results(self, node: Node) -> str:
        """`%a, %b = `"""
        return f"{', '.join([self.define(value) for value in node.results])} = " if node.results else ""

    def type(self, value: Value) -> str:
        """The tensor type of a value; it carries the value's sharding, where there is one."""
        return tensor_text(value.type, value.sharding, self.mesh.name)

    def types(self, values: Iterable[Value]) -> list[str]:
        mesh = self.mesh.name
        return [tensor_text(value.type, value.sharding, mesh) for value in values]

    def argument(self, value: Value) -> str:
        """`%a: type`"""
        return f"{self.define(value)}: {self.type(value)}"

    # Lines.

    def line(self, node: Node) -> str:
        """The text of a node."""
        write = self.dialects.writers[node.op]
        if not self.module.meshes:
            return write(self, node)
        with self.over(self._mesh_of_node(node)):
            return write(self, node)

    def attributes(self, node: Node, own: Mapping[str, str] | None = None) -> str:
        """` {name = value}`: what the operation says of itself, and what is said of all nodes."""
        found = {**own} if own else {}
        for write in self.dialects.node_attr_writers:
            found |= write(self, node)
        return f" {dictionary(found)}" if found else ""

    def region(self, graph: Graph, end: str = "stablehlo.return", names: Sequence[str] | None = None) -> str:
        """`{...}`, closed by the operation `end`. The inputs are the arguments of its block, or printed as `names`."""
        header = ""
        if names is not None:
            for value, name in zip(graph.inputs, names, strict=True):
                self.share_name(value, name)
        elif graph.inputs:
            header = f"{self.newline}^bb0({', '.join(map(self.argument, graph.inputs))}):"
        return f"{{{header}{self.block(graph, end)}{self.newline}}}"

    def block(self, graph: Graph, end: str) -> str:
        """The lines of a graph, each after a line break."""
        outer, self.newline = self.newline, f"{self.newline}  "
        lines = ["", *[self.line(node) for node in graph.nodes], self._end(end, graph.outputs)]
        text = self.newline.join(lines)
        self.newline = outer
        return text

    def _end(self, name: str, values: Sequence[Value]) -> str:
        """`stablehlo.return %a : type`"""
        return f"{name} {', '.join(self.names(values))} : {', '.join(self.types(values))}" if values else name

    def function(self, graph: Graph, head: str, arguments: Sequence[str], results: str, attributes: str) -> str:
        """`func.func public @main(%a: type {...}) -> type attributes {...} {...}`; `arguments` are the attributes of each."""
        self._enter(graph)
        texts = [f"{self.argument(value)}{said}" for value, said in zip(graph.inputs, arguments, strict=True)]
        return f"{head}({', '.join(texts)}){results}{attributes} {{{self.block(graph, 'func.return')}{self.newline}}}"

    # Meshes.

    def mesh_of(self, sharding: Sharding) -> Mesh:
        """The mesh that a sharding is over."""
        return next((mesh for mesh in self.module.meshes if mesh.name == sharding.mesh), self.mesh)

    @contextmanager
    def over(self, mesh: Mesh) -> Generator[None]:
        """Inside, what names no mesh is over this one."""
        outer, self.mesh = self.mesh, mesh
        try:
            yield
        finally:
            self.mesh = outer

    def _mesh_of_node(self, node: Node) -> Mesh:
        """Where values say on which of several meshes they are, that of the results, else of the operands."""
        shardings = (value.sharding for value in (*node.results, *node.operands))
        return self.mesh_of(next((each for each in shardings if each and each.mesh), Sharding(())))

    # Names.

    def new_name(self, wanted: str) -> str:
        """A name that nothing in the function has, without `%`."""
        taken = self._taken
        if wanted in taken if wanted.isdecimal() and wanted.isascii() else not _NAME.fullmatch(wanted):
            wanted = self._free_number()
        elif wanted in taken:
            wanted = self._suffixed(wanted)
        taken.add(wanted)
        return wanted

    def _free_number(self) -> str:
        while (name := str(self._number)) in self._taken:
            self._number += 1
        return name

    def _suffixed(self, wanted: str) -> str:
        stem = re.sub(r"_\d+$", "", wanted) or wanted
        while True:
            number = self._suffixes[stem] = self._suffixes.get(stem, -1) + 1
            if (name := f"{stem}_{number}") not in self._taken:
                return name


@lru_cache(1 << 12)
def tensor_text(kind: TensorType, sharding: Sharding | None = None, mesh: str = "") -> str:
    """`tensor<8x?xf32, #meshgen.split<@mesh, [["dp"], []]>>`"""
    sizes = "".join("?x" if size is None else f"{size}x" for size in kind.shape)
    encoding = f", {split_text(sharding, mesh)}" if sharding else ""
    return f"tensor<{sizes}{ELEMENT_NAMES.get(kind.dtype, kind.dtype)}{encoding}>"
