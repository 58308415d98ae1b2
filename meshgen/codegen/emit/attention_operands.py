"""Operands of the products of attention kernels, a tile at a time, and arguments of exponentials."""

from __future__ import annotations

import math

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.dot_problem import precision_option
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import NEVER, Guards
from meshgen.codegen.emit.index_maps import read_through
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.attention import Producer, splat
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.codegen.fusion.weighted_sum import is_index_map
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import LAYOUT
from meshgen.ops.precision import multiplied_as
from meshgen.ops.triton.registers import rounded

LOG2_E = 1.4426950408889634  # exponentials are powers of two on a device


def operand_tile(
    evaluator: Evaluator, value: Value, index: Index, name: str, block: tuple[str, str], summed: Var, dtype: str = ""
) -> str:
    """A tile of a value in the type that is multiplied; 0 where `summed` is past its end.

    Args:
        name, block: of the tile where it is computed; loads have the name of what they load.
        dtype: the type; the value's own one by default. What is a conversion from it is read before the conversion.
    """
    plain = _plain(evaluator, value, index, dtype or value.type.dtype)
    if plain is not None:
        return plain
    text = evaluator.in_register(evaluator.value(value, index)).text
    if edge := evaluator.tile.edges[summed]:
        text = f"tl.where({edge}, {text}, 0.0)"
    text, helpers = rounded(f"tl.broadcast_to({text}, {', '.join(block)})", dtype or value.type.dtype)
    for helper in helpers:
        evaluator.helper(helper)
    return evaluator.assign(name, text)


def _plain(evaluator: Evaluator, value: Value, index: Index, dtype: str) -> str | None:
    """The operand as one load, seen through index maps; None if something must be computed."""
    guards: Guards = ()
    while (node := evaluator.producer.get(value)) is not None:
        if node.op == "convert" and value.type.dtype != dtype and node.operands[0].type.dtype == dtype:
            value = node.operands[0]
            continue
        if node.op not in LAYOUT:
            return None
        read = read_through(evaluator, node, index)
        if NEVER in read.conditions or (read.conditions and not (read.fill is None or read.fill in ("0", "0.0"))):
            return None
        value, index, guards = read.value, read.index, (*guards, *read.conditions)
    return evaluator.load(value, index, guards, raw=True).text if value.type.dtype == dtype else None


def source_of(producer: Producer, value: Value, index: Index) -> tuple[Value, Index]:
    """What a value is read from, seen through index maps and conversions: operands that have it in common are one tile."""
    while (node := producer(value)) is not None and (is_index_map(node) or node.op == "convert"):
        index = index if node.op == "convert" else backward(node, index)
        value = node.operands[0]
    return value, index


def input_precision(dot: Node) -> str:
    """The argument of `tl.dot` that says how factors are rounded."""
    return precision_option(multiplied_as(dot))


def power_of_two(size: int) -> int:
    """The least power of two from 16 on that is not below `size`: products of tiles need 16 of each dim."""
    return 1 << max(4, (size - 1).bit_length())


def factored(producer: Producer, value: Value, scores: Node) -> tuple[Value, float]:
    """What is multiplied by a positive number to have the value, and that number; 0.0 where that is of no use.

    Scale and maximum are then one multiplication and subtraction. What is masked may be as large as floats are, and is not scaled.
    """
    node = producer(value)
    if scores.operands[0].type.dtype == "f32" or node is None or not _is_plain(producer, value, scores):
        return value, 0.0
    if node.op == "multiply":
        for inner, number in (node.operands, node.operands[::-1]):
            if (factor := splat(number, producer)) is not None and 0 < factor < math.inf:
                return inner, factor
    return value, 1.0


def _is_plain(producer: Producer, value: Value, scores: Node) -> bool:
    """Whether a value is of the size of the scores: nothing is added to them or put in their place."""
    node = producer(value)
    while node is not None and node is not scores:
        others = [v for v in node.operands[1:] if splat(v, producer) is None]
        if (node.op not in ("multiply", "divide", "tanh", "convert") and node.op not in LAYOUT) or others:
            return False
        node = producer(node.operands[0])
    return node is not None


def along(var: Var) -> Expr:
    """The values of a variable; 0 of one that has no other."""
    return ex.ZERO if var.high == 0 else Expr(((var, 1),))


def dependent(value: Value, body: Graph) -> set[Value]:
    """The values of a body that depend on a value of it, and that one."""
    found = {value}
    for node in body.nodes:
        if found.intersection(node.operands):
            found.update(node.results)
    return found
