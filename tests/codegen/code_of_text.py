"""Parser from the text of a kernel to its index code.

Tests use it for handwritten sources and to compare generated text with its code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from meshgen.codegen import index_code as ic
from meshgen.codegen.bounds.accesses import Access, Given, accesses, is_inside
from meshgen.codegen.building.build import parameters
from meshgen.codegen.index_code import Advance, Branch, Describe, Int, Let, Loop, Statement, Touch
from meshgen.codegen.triton_source import KernelSource
from meshgen.ir.graph import Graph
from meshgen.mesh import Mesh

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_RELATIONS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "=="}


def code_of(text: str, entry: str = "kernel") -> list[Statement]:
    """Return the index code of function `entry`."""
    function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == entry)
    return _block(function.body)


def _block(body: Sequence[ast.stmt]) -> list[Statement]:
    return [statement for child in body for statement in _statements(child)]


def _statements(statement: ast.stmt) -> Iterator[Statement]:
    match statement:
        case ast.Assign([ast.Name(name)], value):
            yield from _accesses(value)
            yield Let(name, _condition(value) or _int(value))
        case ast.Assign([ast.Tuple(names)], value):
            yield from _accesses(value)
            yield from (Let(name.id, _data(value)) for name in names if isinstance(name, ast.Name))
        case ast.AugAssign(ast.Name(name), ast.Add(), value):
            yield from _accesses(value)
            yield Advance(name, _int(value))
        case ast.Expr(value):
            yield from _accesses(value)
        case ast.For(ast.Name(name), ast.Call(_, ends), inner):
            yield Loop(name, tuple(map(_int, ends)), _block(inner))
        case ast.If(test, inner, other):
            yield Branch(_condition(test) or ast.unparse(test), _block(inner), _block(other))
        case ast.Pass():
            pass
        case _:
            raise AssertionError(f"unknown statement in a kernel: {ast.unparse(statement)}")


def _accesses(value: ast.expr) -> Iterator[Statement]:
    """Yield the loads, stores and tensor descriptors in an expression."""
    for child in ast.iter_child_nodes(value):
        for inner in [child.value] if isinstance(child, ast.keyword) else [child]:
            if isinstance(inner, ast.expr):
                yield from _accesses(inner)
    match value:
        case ast.Call(ast.Attribute(ast.Name("tl"), "load" | "store"), [address, *_], options):
            masks = [
                _condition(option.value) or ast.unparse(option.value) for option in options if option.arg == "mask"
            ]
            yield Touch(ast.unparse(value), _int(address), *masks)
        case ast.Call(
            ast.Attribute(ast.Name("tl"), "make_tensor_descriptor"), [start, ast.List(sizes), ast.List(strides), _]
        ):
            steps = tuple(ast.literal_eval(stride) for stride in strides)
            yield Describe(ast.unparse(value), _int(start), tuple(map(_int, sizes)), steps)
        case _:
            pass


def _data(value: ast.expr) -> Int:
    return Int(ast.unparse(value), "data")


def _int(value: ast.expr) -> Int:
    match value:
        case ast.Constant(int(number)) if not isinstance(number, bool):
            return ic.integer(number)
        case ast.Name(name):
            return ic.integer(name)
        case ast.UnaryOp(ast.USub(), operand):
            return Int(ast.unparse(value), "-", (ic.integer(0), _int(operand)))
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return Int(ast.unparse(value), _OPERATORS[type(op)], (_int(left), _int(right)))
        case ast.Subscript(inner, ast.Tuple() as side):
            return Int(ast.unparse(value), "turned", (_int(inner), f"[{ast.unparse(side).strip('()')}]"))
        case ast.Call(ast.Attribute(ast.Name("tl"), "minimum" | "maximum" as function), [left, right]):
            return Int(ast.unparse(value), function, (_int(left), _int(right)))
        case ast.Call(ast.Attribute(ast.Name("tl"), "where"), [_, left, right]):
            return Int(ast.unparse(value), "where", (_int(left), _int(right)))
        case ast.Call(ast.Attribute(ast.Name("tl"), "arange"), [ast.Constant(0), count]):
            return Int(ast.unparse(value), "arange", (_int(count),))
        case ast.Call(ast.Attribute(ast.Name("tl"), "program_id"), _):
            return Int(ast.unparse(value), "program_id")
        case ast.Call(ast.Attribute(ast.Name("tl"), "full"), [ast.List([]), inner, kind]):
            return Int(ast.unparse(value), "to", (_int(inner), ast.unparse(kind)))
        case ast.Call(ast.Attribute(inner, "to"), [kind], []) if not isinstance(inner, ast.Name) or inner.id != "tl":
            return Int(ast.unparse(value), "to", (_int(inner), ast.unparse(kind)))
        case _:
            return _data(value)


def _condition(value: ast.expr) -> ic.Condition | None:
    match value:
        case ast.Compare(left, [op], [right]) if type(op) in _RELATIONS:
            comparison = ic.Comparison(_int(left), _RELATIONS[type(op)], _int(right))
            return ic.Condition.of(ast.unparse(value), comparison)
        case ast.BinOp(left, ast.BitAnd(), right):
            sides = [_condition(side) or ast.unparse(side) for side in (left, right)]
            condition = ic.all_of(sides)
            assert isinstance(condition, ic.Condition)
            return condition
        case _:
            return None


def proven(code: Sequence[Statement], given: Given) -> list[bool]:
    """Return, for each access, whether it is proven to be in bounds."""
    checked_accesses, numbers = accesses(code, given)
    return [is_inside(access, numbers) for access in checked_accesses]


def launch_facts_of(source: KernelSource, body: Graph, mesh: Mesh) -> Given:
    """Return the facts about a launch of the body's kernel: sizes, mesh coordinates, grid and constants."""
    values = {"operand": body.inputs, "result": body.outputs}
    arguments = list(zip(parameters(source.text, source.entry), source.params, strict=False))
    sizes = {name: values[kind][which].type.size for name, (kind, which) in arguments if kind in values}
    counts = {name: mesh.group_size(which) for name, (kind, which) in arguments if kind == "coordinate"}
    return Given(sizes, counts, source.grid[0], source.constants)


def questions(code: Sequence[Statement], given: Given) -> list[Any]:
    """Return what must be proven for each access. Variable ids are left out, so that equal kernels have equal results."""
    return [_question(access) for access in accesses(code, given)[0]]


def _question(access: Access) -> tuple[Any, ...]:
    question = access.question
    if question is None:
        return access.names, access.trips
    sides = [
        sorted(re.sub(r"#\d+", "", repr(inequality)) for inequality in side)
        for side in (question.needs, question.facts)
    ]
    terms = sorted(re.sub(r"#\d+", "", repr(term)) for term in question.offset.terms)
    return access.names, access.trips, terms, question.offset.const, *sides, question.size
