"""From graphs to xDSL's operations: the state of one conversion.

Records of dialects (`dialect.py`) say how each node is converted, `module.py` runs the conversion of a whole module.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Operation, SSAValue

from meshgen.ir.graph import Graph, Module, Node, TensorType, Value, is_complex
from meshgen.mesh import Mesh
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.late import LateOperation
from meshgen.mlir.shard.attributes import encode_split
from meshgen.spec import Sharding


class Exporter:
    """Conversion of the graphs of one function into operations.

    `names` holds the name that each SSA value should print as, and `stands_for` the value of the function's own graph that one
    stands for. `bodies` has the functions whose nodes are converted when they are printed (`mlir/lines.py`), by their
    blocks. All three are those of the whole text, if `outer` is its exporter.
    """

    def __init__(self, module: Module, dialects: Dialect, outer: Exporter | None = None) -> None:
        self.module = module
        self.dialects = dialects
        self.mesh = module.mesh  # of what names none
        self.names: dict[SSAValue, str] = outer.names if outer else {}
        self.stands_for: dict[SSAValue, Value] = outer.stands_for if outer else {}
        self.bodies: dict[Block, tuple[Graph, Exporter]] = outer.bodies if outer else {}
        self._before: list[Operation] = []
        self._values: dict[Value, SSAValue] = {}
        self._types: dict[tuple[TensorType, Sharding | None, int], builtin.TensorType[Any]] = (
            outer._types if outer else {}
        )

    def apart(self) -> Exporter:
        """One for nodes of the same module whose values are not those of the text."""
        found = Exporter(self.module, self.dialects)
        found._types = self._types
        return found

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

    def ssa(self, value: Value) -> SSAValue:
        """The SSA value of a graph's value; where its node was printed without being converted, one that stands for it."""
        if (found := self._values.get(value)) is None:
            found = Block(arg_types=[self.type(value)]).args[0]
            self.stand_for(value, found)
        return found

    def stand_for(self, value: Value, ssa: SSAValue) -> None:
        """Let an SSA value print as a value of the function's own graph does."""
        self._values[value] = ssa
        self.stands_for[ssa] = value

    def operands(self, node: Node) -> list[SSAValue]:
        return [self.ssa(value) for value in node.operands]

    def bind(self, value: Value, ssa: SSAValue) -> None:
        self._values[value] = ssa
        self.names[ssa] = value.name

    def type(self, value: Value) -> builtin.TensorType[Any]:
        """The tensor type of a value; it carries the value's sharding, where there is one."""
        return self.tensor(value.type, value.sharding)

    def types(self, values: Sequence[Value]) -> list[builtin.TensorType[Any]]:
        return [self.type(value) for value in values]

    def tensor(self, kind: TensorType, sharding: Sharding | None = None) -> builtin.TensorType[Any]:
        """The xDSL type of a tensor."""
        key = kind, sharding, id(self.mesh)
        if (found := self._types.get(key)) is None:
            shape = [builtin.DYNAMIC_INDEX if size is None else size for size in kind.shape]
            encoding = encode_split(sharding, self.mesh) if sharding else None
            found = builtin.TensorType(element_type(kind.dtype), shape, encoding or builtin.NoneAttr())
            self._types[key] = found
        return found

    def before(self, operation: Operation) -> None:
        """Put an operation before the one that is being exported."""
        self._before.append(operation)

    def operations(self, node: Node) -> list[Operation]:
        """The operation of a node, its results bound and its discardable attributes written, after what it needs."""
        with self.over(self._mesh_of_node(node)):
            operation = self.dialects.exporters[node.op](self, node)
            for writer in self.dialects.node_attr_writers:
                operation.attributes.update(writer(self, node))
        if node.op != "sharding_group":  # what a member of a group gives is called as what it takes
            for value, ssa in zip(node.results, operation.results, strict=True):
                self.bind(value, ssa)
        found = [*self._before, operation]
        self._before.clear()
        return found

    def _mesh_of_node(self, node: Node) -> Mesh:
        """Where values say on which of several meshes they are, that of the results, else of the operands."""
        shardings = (value.sharding for value in (*node.results, *node.operands)) if self.module.meshes else ()
        return self.mesh_of(next((each for each in shardings if each and each.mesh), Sharding(())))

    def body(self, graph: Graph) -> Block:
        """The block of a function, of which the nodes are converted when they are printed."""
        block = Block(arg_types=self.types(graph.inputs))
        for value, argument in zip(graph.inputs, block.args, strict=True):
            self.stand_for(value, argument)
        self.bodies[block] = graph, self
        return block

    def block(
        self, graph: Graph, terminator: type[Operation] | LateOperation, outside: Sequence[SSAValue] | None = None
    ) -> Block:
        """The block of a graph, closed by `terminator` over its outputs.

        Its inputs are the arguments of the block, or the values `outside` where the block is to have none.
        """
        block = Block(arg_types=self.types(graph.inputs) if outside is None else ())
        if outside is not None:
            self._values.update(zip(graph.inputs, outside, strict=True))
        for value, argument in zip(graph.inputs, block.args, strict=False):
            self.bind(value, argument)
        for node in graph.nodes:
            block.add_ops(self.operations(node))
        block.add_op(terminator.create(operands=[self.ssa(value) for value in graph.outputs]))
        return block


@cache
def element_type(dtype: str) -> Attribute:
    """The xDSL element type of a dtype name."""
    if is_complex(dtype):
        return builtin.ComplexType(builtin.f32 if dtype == "c64" else builtin.f64)
    floats: dict[str, Attribute] = {
        "f16": builtin.f16, "f32": builtin.f32, "f64": builtin.f64, "bf16": builtin.bf16,
        "f8E4M3FN": builtin.Float8E4M3FNType(), "f8E5M2": builtin.Float8E5M2Type(),
        "f8E4M3": builtin.Float8E4M3Type(), "f8E3M4": builtin.Float8E3M4Type(),
        "f8E4M3FNUZ": builtin.Float8E4M3FNUZType(), "f8E5M2FNUZ": builtin.Float8E5M2FNUZType(),
        "f8E4M3B11FNUZ": builtin.Float8E4M3B11FNUZType(), "f8E8M0FNU": builtin.Float8E8M0FNUType(),
    }  # fmt: skip
    if dtype in floats:
        return floats[dtype]
    unsigned = dtype.startswith("u")
    signedness = builtin.Signedness.UNSIGNED if unsigned else builtin.Signedness.SIGNLESS
    return builtin.IntegerType(int(dtype[1 + unsigned :]), signedness)
