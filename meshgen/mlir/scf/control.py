"""Importers of scf and of assertions of cf.

Loops become `while`, and conditionals `if` or `case`. Values that a region captures become operands of the node.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ir.inline import copy_nodes
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.conversion import Importer, Refused, import_nothing
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.integer_folding import constant


def while_loop(importer: Importer, op: Operation, operands: Sequence[Value], regions: tuple[Graph, Graph]) -> list[Value]:  # fmt: skip
    """Emit a `while` over `operands`. The last inputs of the body may have no outputs: they are loop invariants."""
    condition, body = regions
    body.outputs = [*body.outputs, *body.inputs[len(body.outputs) :]]
    return importer.emit("while", operands, [value.type for value in operands], {}, op, (condition, body))


def import_for(importer: Importer, op: Operation) -> None:
    """Convert to `while (i < upper) { body; i += step }`, which carries i, the carried values, the bounds, and the
    captured values.
    """
    assert isinstance(op, scf.ForOp)
    if not op.results:  # A loop without results has no effect.
        return
    step = constant(op.step)
    if step is not None and step < 1:
        raise Refused("MG0103", f"the step is {step}, but must be at least 1")
    bounds = list(dict.fromkeys([op.ub, op.step]))
    (body,), captured = importer.blocks([op.body.block], bounds)
    count = len(op.body.block.args)
    bound_positions = [count + bounds.index(bound) for bound in (op.ub, op.step)]
    inner = Builder(Importer(importer.reading, body, importer), op)
    induction_variable = body.inputs[0]
    next_value = inner.apply("add", induction_variable, _bound(inner, op.step, body.inputs[bound_positions[1]]))
    body.outputs = [next_value, *body.outputs]
    operands = [importer.value(op.lb), *importer.values(op.iter_args), *importer.values(captured)]
    condition = Graph("", [Value(value.type, value.name) for value in operands])
    outer = Builder(Importer(importer.reading, condition, importer), op)
    upper = _bound(outer, op.ub, condition.inputs[bound_positions[0]])
    condition.outputs = [outer.compare("LT", condition.inputs[0], upper)]
    results = while_loop(importer, op, operands, (condition, body))
    importer.bind_results(op, results[1:])


def _bound(builder: Builder, ssa: SSAValue, value: Value) -> Value:
    """Return a loop bound inside the loop: a constant if the bound is constant, so that the trip count is known, else
    `value`.

    `value` is the region's input for the captured bound.
    """
    number = constant(ssa)
    return value if number is None else builder.constant(number, value.type)


def import_while(importer: Importer, op: Operation) -> None:
    """Convert an `scf.while`, whose first region computes the condition and the operands of the second region.

    The results are the values that the first region passes on when the condition is false, so a copy of the first
    region follows the loop.
    """
    assert isinstance(op, scf.WhileOp)
    (before, after), captured = importer.blocks([op.before_region.block, op.after_region.block])
    count = len(op.arguments)
    operands = [*importer.values(op.arguments), *importer.values(captured)]
    condition = Graph("", [Value(value.type, value.name) for value in operands])
    condition.outputs = copy_nodes(before, condition.inputs, condition)[:1]
    body = Graph("", [Value(value.type, value.name) for value in operands])
    passed_on = copy_nodes(before, body.inputs, body)[1:]
    body.outputs = copy_nodes(after, [*passed_on, *body.inputs[count:]], body)
    last = while_loop(importer, op, operands, (condition, body))
    passed_on = copy_nodes(before, last, importer.graph)[1:]
    importer.bind_results(op, passed_on)


def import_if(importer: Importer, op: Operation) -> None:
    """Convert to an `if`. Both branches take the values that either of them captures."""
    assert isinstance(op, scf.IfOp)
    if not op.results:  # A conditional without results has no effect.
        return
    if not op.false_region.blocks:
        raise Refused("MG0104", "a conditional with results needs an else branch")
    graphs, captured = importer.blocks([op.true_region.block, op.false_region.block])
    branch(importer, op, "if", importer.value(op.cond), graphs, importer.values(captured))


def branch(importer: Importer, op: Operation, kind: str, decides: Value, graphs: Sequence[Graph], values: Sequence[Value]) -> None:  # fmt: skip
    """Emit an `if` or `case` (`kind`) on the value `decides`, with operands `values`, and bind the results of `op`."""
    types = [importer.type(result) for result in op.results]
    importer.bind_results(op, importer.emit(kind, [decides, *values], types, {}, op, tuple(graphs)))


def import_switch(importer: Importer, op: Operation) -> None:
    """Convert to a `case`: branch 0 is the default, followed by the cases in order.

    A switch on an i32 over the cases 0, 1, ... is a `case` on the i32 itself: its branches are the cases, then the
    default,
    since a `case` takes the last branch for any other number.
    """
    assert isinstance(op, scf.IndexSwitchOp)
    if not op.results:
        return
    builder, value = Builder(importer, op), importer.value(op.arg)
    source = next(
        (node.operands[0] for node in importer.graph.nodes if value in node.results and node.op == "convert"), None
    )
    if source and source.type.dtype == "i32" and list(op.cases.get_values()) == list(range(len(op.case_regions))):
        graphs, captured = importer.blocks([region.block for region in (*op.case_regions, op.default_region)])
        branch(importer, op, "case", source, graphs, importer.values(captured))
        return
    branch_index = builder.constant(0, TensorType((), "i32"))
    for position, case in enumerate(op.cases.get_values()):
        is_case = builder.compare("EQ", value, builder.constant(int(case), value.type))
        branch_index = builder.select(is_case, builder.constant(position + 1, branch_index.type), branch_index)
    blocks = [op.default_region.block, *(region.block for region in op.case_regions)]
    graphs, captured = importer.blocks(blocks)
    branch(importer, op, "case", branch_index, graphs, importer.values(captured))


def import_execute_region(importer: Importer, op: Operation) -> None:
    """Inline the region of an `scf.execute_region`."""
    assert isinstance(op, scf.ExecuteRegionOp)
    importer.bind_results(op, importer.values(importer.operations(op.region.block)))


def import_assert(importer: Importer, op: Operation) -> None:
    """Drop an assertion, which is assumed to hold. Raises Refused if the condition is the constant false."""
    if constant(op.operands[0]) == 0:
        raise Refused("MG0104", "the asserted condition is false")


PART = Dialect(
    importers={
        "cf.assert": import_assert,
        "scf.for": import_for,
        "scf.while": import_while,
        "scf.if": import_if,
        "scf.index_switch": import_switch,
        "scf.execute_region": import_execute_region,
        "scf.yield": import_nothing,
        "scf.condition": import_nothing,
    }
)
