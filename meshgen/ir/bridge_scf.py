"""Reader of scf: counted loops become `while`, conditionals `if`, with everything used from outside carried in."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from meshgen.ir import bridge
from meshgen.ir.bridge import IMPORTERS, Importer, imports
from meshgen.ir.bridge_linalg import refuse
from meshgen.ir.bridge_payload import Builder, kind_of
from meshgen.ir.bridge_shard_sharding import constant
from meshgen.ir.dialects.upstream import SCF
from meshgen.ir.graph import Graph, TensorType, Value

INDEX = TensorType((), "i64")


def read_block(importer: Importer, block: Block) -> Importer:
    """The graph of a block with its arguments as inputs; what it uses from outside follows as captures."""
    inner = Importer(importer.reading, Graph(""), importer)
    for argument in block.args:
        value = Value(kind_of(importer, argument.type), loc=importer.reading.source.locate(argument))
        inner.bind(argument, value)
        inner.graph.inputs.append(value)
    *operations, last = block.ops
    for operation in operations:
        IMPORTERS[operation.name](inner, operation)
    inner.graph.outputs = inner.values(last.operands)
    return inner


@imports("scf.for")
def import_for(importer: Importer, op: Operation) -> None:
    """`while (i < upper) { body; i += step }` over (i, carried values, captured values)."""
    assert isinstance(op, scf.ForOp)
    bounds = [constant(bound) for bound in (op.lb, op.ub, op.step)]
    lower, upper, step = bounds
    if lower is None or upper is None or step is None or step < 1:
        importer.fault("MG0103", "scf.for: bounds and step must be constants, and the step at least 1", op)
        refuse(importer, op)
        return
    inner = read_block(importer, op.body.block)
    body = inner.graph
    captured = [importer.value(ssa) for ssa in inner.captures]
    inside = [inner.value(ssa) for ssa in inner.captures]
    body.inputs += inside
    number = body.inputs[0]
    builder = Builder(inner, op)
    following = builder.apply("add", number, builder.constant(step, INDEX))
    body.outputs = [following, *body.outputs, *inside]
    initial = Builder(importer, op).constant(lower, INDEX)
    operands = [initial, *importer.values(op.iter_args), *captured]
    condition = _condition(importer, op, operands, upper)
    types = [value.type for value in operands]
    results = importer.emit("while", operands, types, {}, op, (condition, body))
    for result, value in zip(op.results, results[1:], strict=False):
        importer.bind(result, value)


def _condition(importer: Importer, op: Operation, operands: Sequence[Value], upper: int) -> Graph:
    inner = Importer(importer.reading, Graph(""), importer)
    inner.graph.inputs = [Value(value.type, value.name) for value in operands]
    builder = Builder(inner, op)
    inner.graph.outputs = [builder.compare("LT", inner.graph.inputs[0], builder.constant(upper, INDEX))]
    return inner.graph


@imports("scf.if")
def import_if(importer: Importer, op: Operation) -> None:
    """Both branches take the captures of both."""
    assert isinstance(op, scf.IfOp)
    if not op.results or not op.false_region.blocks:
        importer.fault("MG0103", "scf.if without results or without an else branch is not supported", op)
        refuse(importer, op)
        return
    branches = [read_block(importer, region.block) for region in (op.true_region, op.false_region)]
    captures: list[SSAValue] = list(dict.fromkeys(ssa for branch in branches for ssa in branch.captures))
    for branch in branches:
        branch.graph.inputs += [branch.value(ssa) for ssa in captures]
    operands = [importer.value(op.cond), *importer.values(captures)]
    types = [kind_of(importer, result.type) for result in op.results]
    graphs = (branches[0].graph, branches[1].graph)
    for result, value in zip(op.results, importer.emit("if", operands, types, {}, op, graphs), strict=True):
        importer.bind(result, value)


@imports("scf.yield")
def import_yield(importer: Importer, op: Operation) -> None:
    """Read with the operation around it."""
    del importer, op


bridge.DIALECTS.append(SCF)
