"""From xDSL functions to graphs: the state of one conversion.

Records of dialects (`dialect.py`) say how each operation is converted, `module.py` runs the conversion of a whole module.
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
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reading import Reading
from meshgen.mlir.recipes import Recipe
from meshgen.ops.types.site import types_agree

OF_VALUES = (builtin.TensorType, builtin.IntegerType, builtin.IndexType, builtin.AnyFloat, builtin.ComplexType)


class Refused(Exception):
    """Raised where an operation cannot be converted: the code, the message and the hint of the fault at that operation.

    `Importer` adds the name of the operation to the message and binds its results, so that their uses cause no more faults.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


def import_nothing(importer: Importer, operation: Operation) -> None:
    """Add no node: the operation is read with the one around it, or where its results are used."""


class Importer:
    """Conversion of one function body, or of one region of an operation, into a graph.

    A region may use values from outside; they become further inputs of its graph, in order of their first
    use, and `captures` lists them.
    """

    def __init__(self, reading: Reading, graph: Graph, outer: Importer | None = None) -> None:
        self.reading = reading
        self.dialects: Dialect = reading.dialects
        self.graph = graph
        self.captures: list[SSAValue] = []
        self.outer = outer
        self._values: dict[SSAValue, Value] = {}
        self._taken: dict[SSAValue, Value] = {}

    def value(self, ssa: SSAValue) -> Value:
        """The graph's value of an SSA value."""
        if (found := self._values.get(ssa)) is not None:
            return found
        if self.outer is None:  # the parser lets a value be used before its definition
            known = len(self.reading.faults)
            found = self._values[ssa] = Value(self.type(ssa))
            if self.reading.is_readable(ssa.type) and len(self.reading.faults) == known:
                self.reading.fault("MG0104", "the value is used before it is defined here", ssa)
            return found
        outside = self.outer.value(ssa)
        self.captures.append(ssa)
        inner = self._values[ssa] = self._taken[ssa] = Value(outside.type, outside.name, outside.sharding, outside.loc)
        return inner

    def taken(self, ssa: SSAValue) -> Value:
        """The input of the region that stands for a value from outside; the value may be bound to what is made of it."""
        self.value(ssa)
        return self._taken[ssa]

    def values(self, ssa: Sequence[SSAValue]) -> list[Value]:
        return [self.value(each) for each in ssa]

    def bind(self, ssa: SSAValue, value: Value) -> None:
        """Bind an SSA value to `value`, which gets its name, and its sharding if it has none; a fault if the types differ."""
        if not types_agree(declared := self.type(ssa), value.type):
            message = f"expected type {value.type}, got {declared}"
            owner = ssa.owner if isinstance(ssa.owner, Operation) else None
            self.reading.fault("MG0104", f"{owner.name}: {message}" if owner else message, ssa)
        self._values[ssa] = value
        value.sharding = value.sharding or self.reading.sharding(ssa.type, ssa)
        value.name = value.name or self.reading.source.name(ssa)

    def bind_results(self, operation: Operation, values: Iterable[Value]) -> None:
        """Bind the results of an operation; a loop may carry further values, which the text does not name."""
        for result, value in zip(operation.results, values, strict=False):
            self.bind(result, value)

    def type(self, ssa: SSAValue) -> TensorType:
        return self.reading.type(ssa.type, ssa)

    def fault(self, code: str, message: str, source: Operation, hint: str = "") -> None:
        """Collect a fault at `source`; all are reported together."""
        self.reading.fault(code, message, source, hint)

    def report(self, refusal: Refused, source: Operation) -> None:
        """Collect the fault of an operation that is refused."""
        self.fault(refusal.code, f"{source.name}: {refusal}", source, refusal.hint)

    def emit(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], attrs: Mapping[str, Any],
             source: Operation, regions: tuple[Graph, ...] = ()) -> list[Value]:  # fmt: skip
        """Add a node with the location and the discardable attributes of `source`; binds nothing."""
        node = self.graph.add(op, operands, types, attrs, loc=self.reading.source.locate(source))
        node.regions = regions
        for name, attribute in source.attributes.items():
            if (reader := self.dialects.node_attrs.get(name)) is not None:
                reader(self, node, attribute)
        return node.results

    def convert(self, source: Operation, op: str, attrs: Mapping[str, Any] | None = None, *,
                operands: Sequence[SSAValue] | None = None, regions: tuple[Graph, ...] = ()) -> Node:  # fmt: skip
        """One node for one operation: emit with its operands and result types, and bind its results."""
        arguments = self.values(source.operands if operands is None else operands)
        types = [self.type(result) for result in source.results]
        self.bind_results(source, self.emit(op, arguments, types, attrs or {}, source, regions))
        return self.graph.nodes[-1]

    def region(self, region: Region) -> tuple[Graph, list[SSAValue]]:
        """The graph of a region of one block, and what it uses from outside (its last inputs)."""
        (graph,), captures = self.blocks([region.block])
        return graph, captures

    def blocks(self, blocks: Sequence[Block], more: Sequence[SSAValue] = ()) -> tuple[list[Graph], list[SSAValue]]:
        """The graphs of blocks over their arguments, and then over the same values from outside.

        Returns:
            The graphs, and the values from outside: `more`, and then what any of the blocks uses.
        """
        inner = [Importer(self.reading, Graph(""), self) for _ in blocks]
        for each, block in zip(inner, blocks, strict=True):
            each.body(block)
        captures = list(dict.fromkeys([*more, *(ssa for each in inner for ssa in each.captures)]))
        for each in inner:
            each.graph.inputs += [each.taken(ssa) for ssa in captures]
        return [each.graph for each in inner], captures

    def body(self, block: Block) -> None:
        """Convert a block: its arguments, operations, and the operands of its terminator as outputs."""
        for argument in block.args:
            value = Value(self.type(argument), loc=self.reading.source.locate(argument))
            self.bind(argument, value)
            self.graph.inputs.append(value)
        if block.last_op is None or not block.last_op.has_trait(IsTerminator):
            self.reading.fault("MG0104", "the body must end with a return", block.last_op or block.parent_op())
            return
        self.graph.outputs = self.values(self.operations(block))

    def operations(self, block: Block) -> Sequence[SSAValue]:
        """Convert the operations of a block, whose arguments are bound; returns what its terminator has."""
        *operations, terminator = block.ops
        is_one_mesh = not self.reading.is_on_several and not self.reading.numbering
        for operation in operations:
            first = self.reading.source.like(operation) if is_one_mesh else None
            if first is not None and (recipe := self.reading.recipes.get(first)) is not None:
                self._follow(recipe, operation)
                continue
            known, count = len(self.reading.faults), len(self.graph.nodes)
            with self._on_mesh_of(operation):
                self._convert(operation)
            if first is None and is_one_mesh and len(self.reading.faults) == known:
                self._keep_recipe(operation, self.graph.nodes[count:])
        return terminator.operands

    def _convert(self, operation: Operation) -> None:
        """Add the nodes of one operation; the results of one that is refused are bound all the same."""
        known = len(self.reading.faults)
        try:
            self.dialects.importers[operation.name](self, operation)
        except Refused as error:
            self.report(error, operation)
        except OpenSizeError as error:
            self.fault("MG0208", f"{operation.name}: {error}", operation, "give them with --shape")
        if len(self.reading.faults) > known:
            self._bind_refused(operation)
            if any(fault.code == "MG0103" for fault in self.reading.faults[known:]):
                return  # what else is wrong with an operation that is not supported does not matter
        for name, attribute in operation.attributes.items():
            if (reader := self.dialects.result_attrs.get(name)) is not None:
                reader(self, operation, attribute)

    def _keep_recipe(self, operation: Operation, nodes: Sequence[Node]) -> None:
        """Note what an operation was converted to, where the same holds for all that are like it."""
        tables = self.dialects.node_attrs, self.dialects.result_attrs
        is_read = any(name in table for name in operation.attributes for table in tables)
        if is_read or len(operation.results) != 1 or operation.name not in self.dialects.self_contained:
            return
        operands = self.values(operation.operands)
        is_told_apart = len({*operands}) == len({*operation.operands})
        recipe = Recipe.of(nodes, operands, self._values[operation.results[0]]) if is_told_apart else None
        if recipe is not None:
            self.reading.recipes[operation] = recipe

    def _follow(self, recipe: Recipe, operation: Operation) -> None:
        """Convert an operation as the one was that it is like."""
        loc = self.reading.source.locate(operation)
        (result,) = operation.results
        value = self._values[result] = recipe.follow(self.values(operation.operands), loc, self.graph)
        value.name = value.name or self.reading.source.name(result)

    def bind_unknown(self, operation: Operation) -> None:
        """Bind the results of an operation that has a fault, whose values are unknown."""
        self.bind_results(operation, [Value(self.type(result)) for result in operation.results])

    def _bind_refused(self, operation: Operation) -> None:
        """Bind the results of a refused operation, so that their uses are not further faults."""
        for result in operation.results:
            if result not in self._values and isinstance(result.type, OF_VALUES):
                self._values[result] = Value(self.type(result))

    def put_behind(self, ssa: SSAValue, op: str, attrs: Mapping[str, Any], source: Operation) -> None:
        """Insert an identity node after a value's producer; later uses of the value use its result."""
        value, nodes = self.value(ssa), self.graph.nodes
        self.emit(op, [value], [value.type], attrs, source)
        node = nodes.pop()
        place = next((number + 1 for number, each in enumerate(nodes) if value in each.results), 0)
        while place < len(nodes) and nodes[place].op == op:  # in the order of the text, which so reads back
            place += 1
        nodes[place:] = [node, *(rewired(each, {value: node.result}) for each in nodes[place:])]
        for each, bound in self._values.items():
            if bound is value:
                self._values[each] = node.result
        node.result.name = value.name

    def _on_mesh_of(self, operation: Operation) -> AbstractContextManager[None]:
        """Where types say on which of several meshes values are, the operation is on that of its results, else operands."""
        if not self.reading.is_on_several:
            return nullcontext()
        types = (value.type for value in (*operation.results, *operation.operands))
        found = (self.reading.sharding(type, operation) for type in types if isinstance(type, builtin.TensorType))
        named = next((sharding for sharding in found if sharding and sharding.mesh), None)
        return self.reading.over(self.reading.mesh_of(named)) if named else nullcontext()
