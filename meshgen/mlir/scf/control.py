"""Reader of scf, and of assertions of cf: loops become `while`, conditionals `if` and `case`, with everything used from outside carried in."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ir.inline import copy_nodes
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.conversion import Importer, Refused, import_nothing
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.known_integers import constant


def while_loop(importer: Importer, op: Operation, operands: Sequence[Value], regions: tuple[Graph, Graph]) -> list[Value]:  # fmt: skip
    """A `while` over `operands`; the body's inputs that it does not give again stay as they are."""
    condition, body = regions
    body.outputs = [*body.outputs, *body.inputs[len(body.outputs) :]]
    return importer.emit("while", operands, [value.type for value in operands], {}, op, (condition, body))


def import_for(importer: Importer, op: Operation) -> None:
    """`while (i < upper) { body; i += step }` over (i, carried values, bounds, captured values)."""
    assert isinstance(op, scf.ForOp)
    if not op.results:  # it has no effect
        return
    step = constant(op.step)
    if step is not None and step < 1:
        raise Refused("MG0103", f"the step is {step}, but must be at least 1")
    bounds = list(dict.fromkeys([op.ub, op.step]))
    (body,), captured = importer.blocks([op.body.block], bounds)
    count = len(op.body.block.args)
    places = [count + bounds.index(bound) for bound in (op.ub, op.step)]
    inner = Builder(Importer(importer.reading, body, importer), op)
    number = body.inputs[0]
    following = inner.apply("add", number, _bound(inner, op.step, body.inputs[places[1]]))
    body.outputs = [following, *body.outputs]
    operands = [importer.value(op.lb), *importer.values(op.iter_args), *importer.values(captured)]
    condition = Graph("", [Value(value.type, value.name) for value in operands])
    outer = Builder(Importer(importer.reading, condition, importer), op)
    upper = _bound(outer, op.ub, condition.inputs[places[0]])
    condition.outputs = [outer.compare("LT", condition.inputs[0], upper)]
    results = while_loop(importer, op, operands, (condition, body))
    importer.bind_results(op, results[1:])


def _bound(builder: Builder, ssa: SSAValue, value: Value) -> Value:
    """A bound inside of a loop: its number where it is known, which says how often the loop runs."""
    number = constant(ssa)
    return value if number is None else builder.constant(number, value.type)


def import_while(importer: Importer, op: Operation) -> None:
    """The first region decides and hands on values to the second; both are computed from what the loop carries.

    The results are the values that the first region passes on when it ends the loop, so it is computed once more after it.
    """
    assert isinstance(op, scf.WhileOp)
    (before, after), captured = importer.blocks([op.before_region.block, op.after_region.block])
    count = len(op.arguments)
    operands = [*importer.values(op.arguments), *importer.values(captured)]
    condition = Graph("", [Value(value.type, value.name) for value in operands])
    condition.outputs = copy_nodes(before, condition.inputs, condition)[:1]
    body = Graph("", [Value(value.type, value.name) for value in operands])
    handed = copy_nodes(before, body.inputs, body)[1:]
    body.outputs = copy_nodes(after, [*handed, *body.inputs[count:]], body)
    last = while_loop(importer, op, operands, (condition, body))
    handed = copy_nodes(before, last, importer.graph)[1:]
    importer.bind_results(op, handed)


def import_if(importer: Importer, op: Operation) -> None:
    """Both branches take the captures of both."""
    assert isinstance(op, scf.IfOp)
    if not op.results:  # it has no effect
        return
    if not op.false_region.blocks:
        raise Refused("MG0104", "a conditional with results needs an else branch")
    graphs, captured = importer.blocks([op.true_region.block, op.false_region.block])
    branch(importer, op, "if", importer.value(op.cond), graphs, importer.values(captured))


def branch(importer: Importer, op: Operation, kind: str, decides: Value, graphs: Sequence[Graph], values: Sequence[Value]) -> None:  # fmt: skip
    """An `if` or `case` of graphs over `values`."""
    types = [importer.type(result) for result in op.results]
    importer.bind_results(op, importer.emit(kind, [decides, *values], types, {}, op, tuple(graphs)))


def import_switch(importer: Importer, op: Operation) -> None:
    """A `case` whose branches are the default, then the cases in order."""
    assert isinstance(op, scf.IndexSwitchOp)
    if not op.results:
        return
    builder, value = Builder(importer, op), importer.value(op.arg)
    number = builder.constant(0, TensorType((), "i32"))
    for position, case in enumerate(op.cases.get_values()):
        is_case = builder.compare("EQ", value, builder.constant(int(case), value.type))
        number = builder.select(is_case, builder.constant(position + 1, number.type), number)
    blocks = [op.default_region.block, *(region.block for region in op.case_regions)]
    graphs, captured = importer.blocks(blocks)
    branch(importer, op, "case", number, graphs, importer.values(captured))


def import_execute_region(importer: Importer, op: Operation) -> None:
    """A region that runs once, in place."""
    assert isinstance(op, scf.ExecuteRegionOp)
    importer.bind_results(op, importer.values(importer.operations(op.region.block)))


def import_assert(importer: Importer, op: Operation) -> None:
    """Assertions are assumed to hold; one with a false constant condition is refused."""
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
