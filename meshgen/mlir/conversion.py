"""Conversion of function bodies from xDSL operations into graphs.

The tables of each dialect (`dialect.py`) say how each operation is converted. `module.py` calls this module once per
function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from meshgen.ir.graph import Graph, Node, OpenSizeError, TensorType, Value
from meshgen.ir.regions import rewired
from meshgen.mlir.conversion_replay import Recipe
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reader_state import Reading
from meshgen.ops.types.site import types_agree

OF_VALUES = (builtin.TensorType, builtin.IntegerType, builtin.IndexType, builtin.AnyFloat, builtin.ComplexType)


class Refused(Exception):
    """Exception for an operation that cannot be converted, with the code, message and hint of the diagnostic.

    The importer of an operation raises it. `Importer` catches it, prefixes the message with the operation's name, and
    binds the results to placeholders, so that their users cause no follow-up faults.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


def import_nothing(importer: Importer, operation: Operation) -> None:
    """Importer of an operation that becomes no node: the importer of its parent or of its users converts it."""


class Importer:
    """Converter of the body of one function or region into `graph`.

    A region may use values that are defined outside of it. They become additional inputs of its graph, in order of
    first use, and `captures` lists them.
    """

    def __init__(self, reading: Reading, graph: Graph, outer: Importer | None = None) -> None:
        self.reading = reading
        self.dialects: Dialect = reading.dialects
        self.graph = graph
        self.captures: list[SSAValue] = []
        self.outer = outer
        self._values: dict[SSAValue, Value] = {}
        self._captured_inputs: dict[SSAValue, Value] = {}

    def value(self, ssa: SSAValue) -> Value:
        """Return the graph value of an SSA value. In a region, a value from outside becomes a new input of the graph."""
        if (value := self._values.get(ssa)) is not None:
            return value
        # Only an undefined value reaches the outermost importer: the parser accepts a use before the definition.
        if self.outer is None:
            fault_count = len(self.reading.faults)
            value = self._values[ssa] = Value(self.type(ssa))
            if self.reading.is_readable(ssa.type) and len(self.reading.faults) == fault_count:
                self.reading.fault("MG0104", "the value is used before it is defined here", ssa)
            return value
        outside = self.outer.value(ssa)
        self.captures.append(ssa)
        inner = self._values[ssa] = self._captured_inputs[ssa] = Value(
            outside.type, outside.name, outside.sharding, outside.loc
        )
        return inner

    def captured_input(self, ssa: SSAValue) -> Value:
        """Return the region's input for the captured value `ssa`.

        Unlike `value`, it is not affected by an operation of the region that rebinds `ssa`, for example to an annotated
        value.
        """
        self.value(ssa)
        return self._captured_inputs[ssa]

    def values(self, ssa: Sequence[SSAValue]) -> list[Value]:
        return [self.value(value) for value in ssa]

    def bind(self, ssa: SSAValue, value: Value) -> None:
        """Record `value` as the graph value of `ssa`.

        Copies the name and sharding of `ssa` to `value` if it lacks them, and reports a fault if the types differ.
        """
        if not types_agree(declared := self.type(ssa), value.type):
            message = f"expected type {value.type}, got {declared}"
            owner = ssa.owner if isinstance(ssa.owner, Operation) else None
            self.reading.fault("MG0104", f"{owner.name}: {message}" if owner else message, ssa)
        self._values[ssa] = value
        value.sharding = value.sharding or self.reading.sharding(ssa.type, ssa)
        value.name = value.name or self.reading.source.name(ssa)

    def bind_results(self, operation: Operation, values: Iterable[Value]) -> None:
        """Bind the results of an operation to `values`, in order.

        Surplus values are ignored, for example captured values that a loop carries but that the text does not name.
        """
        for result, value in zip(operation.results, values, strict=False):
            self.bind(result, value)

    def type(self, ssa: SSAValue) -> TensorType:
        return self.reading.type(ssa.type, ssa)

    def fault(self, code: str, message: str, source: Operation, hint: str = "") -> None:
        """Record a fault at `source`. All faults of a module are raised together when it has been read."""
        self.reading.fault(code, message, source, hint)

    def report(self, refusal: Refused, source: Operation) -> None:
        """Report a `Refused` exception as a fault at `source`."""
        self.fault(refusal.code, f"{source.name}: {refusal}", source, refusal.hint)

    def emit(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], attrs: Mapping[str, Any],
             source: Operation, regions: tuple[Graph, ...] = ()) -> list[Value]:  # fmt: skip
        """Add a node with the location and discardable attributes of `source`. The results of `source` are not bound."""
        node = self.graph.add(op, operands, types, attrs, loc=self.reading.source.locate(source))
        node.regions = regions
        for name, attribute in source.attributes.items():
            if (reader := self.dialects.node_attrs.get(name)) is not None:
                reader(self, node, attribute)
        return node.results

    def convert(self, source: Operation, op: str, attrs: Mapping[str, Any] | None = None, *,
                operands: Sequence[SSAValue] | None = None, regions: tuple[Graph, ...] = ()) -> Node:  # fmt: skip
        """Convert `source` into a single node that has the same result types, and bind its results.

        The operands of the node are `operands`, by default those of `source`.
        """
        arguments = self.values(source.operands if operands is None else operands)
        types = [self.type(result) for result in source.results]
        self.bind_results(source, self.emit(op, arguments, types, attrs or {}, source, regions))
        return self.graph.nodes[-1]

    def region(self, region: Region) -> tuple[Graph, list[SSAValue]]:
        """Convert a single-block region into a graph.

        Returns the graph and the values that it captures, which are the last inputs of the graph.
        """
        (graph,), captures = self.blocks([region.block])
        return graph, captures

    def blocks(self, blocks: Sequence[Block], more: Sequence[SSAValue] = ()) -> tuple[list[Graph], list[SSAValue]]:
        """Convert several blocks, such as the branches of an `if`, into graphs with the same captured values.

        Each graph takes the arguments of its block, then all captured values.

        Returns:
            The graphs and the captured values: first `more`, then the values that any block captures.
        """
        inner = [Importer(self.reading, Graph(""), self) for _ in blocks]
        for importer, block in zip(inner, blocks, strict=True):
            importer.body(block)
        captures = list(dict.fromkeys([*more, *(ssa for importer in inner for ssa in importer.captures)]))
        for importer in inner:
            importer.graph.inputs += [importer.captured_input(ssa) for ssa in captures]
        return [importer.graph for importer in inner], captures

    def body(self, block: Block) -> None:
        """Convert a block into the graph: block arguments become inputs, and operands of the terminator become outputs."""
        for argument in block.args:
            value = Value(self.type(argument), loc=self.reading.source.locate(argument))
            self.bind(argument, value)
            self.graph.inputs.append(value)
        if block.last_op is None or not block.last_op.has_trait(IsTerminator):
            self.reading.fault("MG0104", "the body must end with a return", block.last_op or block.parent_op())
            return
        self.graph.outputs = self.values(self.operations(block))

    def operations(self, block: Block) -> Sequence[SSAValue]:
        """Convert the operations of a block whose arguments are already bound. Returns the operands of the block's
        terminator.
        """
        *operations, terminator = block.ops
        is_one_mesh = not self.reading.is_on_several and not self.reading.numbering
        for operation in operations:
            first = self.reading.source.like(operation) if is_one_mesh else None
            if first is not None and (recipe := self.reading.recipes.get(first)) is not None:
                self._follow(recipe, operation)
                continue
            fault_count, node_count = len(self.reading.faults), len(self.graph.nodes)
            with self._on_mesh_of(operation):
                self._convert(operation)
            if first is None and is_one_mesh and len(self.reading.faults) == fault_count:
                self._keep_recipe(operation, self.graph.nodes[node_count:])
        return terminator.operands

    def _convert(self, operation: Operation) -> None:
        """Convert one operation. If that fails, its results are bound to placeholders."""
        fault_count = len(self.reading.faults)
        try:
            self.dialects.importers[operation.name](self, operation)
        except Refused as error:
            self.report(error, operation)
        except OpenSizeError as error:
            self.fault("MG0208", f"{operation.name}: {error}", operation, "give them with --shape")
        if len(self.reading.faults) > fault_count:
            self._bind_refused(operation)
            if any(fault.code == "MG0103" for fault in self.reading.faults[fault_count:]):
                return  # Further faults would only repeat that the operation is unsupported.
        for name, attribute in operation.attributes.items():
            if (reader := self.dialects.result_attrs.get(name)) is not None:
                reader(self, operation, attribute)

    def _keep_recipe(self, operation: Operation, nodes: Sequence[Node]) -> None:
        """Cache the nodes of `operation` for later operations with the same text.

        Nothing is cached if an operation with the same text could be converted differently.
        """
        tables = self.dialects.node_attrs, self.dialects.result_attrs
        is_read = any(name in table for name in operation.attributes for table in tables)
        if is_read or len(operation.results) != 1 or operation.name not in self.dialects.self_contained:
            return
        operands = self.values(operation.operands)
        is_unambiguous = len({*operands}) == len({*operation.operands})
        recipe = Recipe.of(nodes, operands, self._values[operation.results[0]]) if is_unambiguous else None
        if recipe is not None:
            self.reading.recipes[operation] = recipe

    def _follow(self, recipe: Recipe, operation: Operation) -> None:
        """Convert `operation` by replaying `recipe`, the cached nodes of an earlier operation with the same text."""
        loc = self.reading.source.locate(operation)
        (result,) = operation.results
        value = self._values[result] = recipe.follow(self.values(operation.operands), loc, self.graph)
        value.name = value.name or self.reading.source.name(result)

    def bind_placeholders(self, operation: Operation) -> None:
        """Bind the results of an invalid operation to placeholder values."""
        self.bind_results(operation, [Value(self.type(result)) for result in operation.results])

    def _bind_refused(self, operation: Operation) -> None:
        """Bind those results of an invalid operation that have no value yet to placeholders, which avoids follow-up
        faults.
        """
        for result in operation.results:
            if result not in self._values and isinstance(result.type, OF_VALUES):
                self._values[result] = Value(self.type(result))

    def insert_after_producer(self, ssa: SSAValue, op: str, attrs: Mapping[str, Any], source: Operation) -> None:
        """Insert a node `op`, which returns its operand, directly after the producer of `ssa`. Later users read its
        result.
        """
        value, nodes = self.value(ssa), self.graph.nodes
        self.emit(op, [value], [value.type], attrs, source)
        node = nodes.pop()
        position = next((index + 1 for index, other in enumerate(nodes) if value in other.results), 0)
        # If several nodes are inserted after one producer, keep their order in the text: printing and reading then
        # round-trips.
        while position < len(nodes) and nodes[position].op == op:
            position += 1
        nodes[position:] = [node, *(rewired(other, {value: node.result}) for other in nodes[position:])]
        for other, bound in self._values.items():
            if bound is value:
                self._values[other] = node.result
        node.result.name = value.name

    def _on_mesh_of(self, operation: Operation) -> AbstractContextManager[None]:
        """Make the mesh of the operation the default mesh: the one its first sharded result names, else its first
        sharded operand.
        """
        if not self.reading.is_on_several:
            return nullcontext()
        types = (value.type for value in (*operation.results, *operation.operands))
        shardings = (self.reading.sharding(type, operation) for type in types if isinstance(type, builtin.TensorType))
        named = next((sharding for sharding in shardings if sharding and sharding.mesh), None)
        return self.reading.over(self.reading.mesh_of(named)) if named else nullcontext()
