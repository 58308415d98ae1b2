"""The index code that the text of a kernel is, read from its syntax: of sources written for a test, and to compare generated text with its code."""

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
    """The index code of function `entry`."""
    function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == entry)
    return _block(function.body)


def _block(body: Sequence[ast.stmt]) -> list[Statement]:
    return [statement for each in body for statement in _statements(each)]


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
    """The loads, stores and tensor descriptors in an expression."""
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
            found = ic.all_of(sides)
            assert isinstance(found, ic.Condition)
            return found
        case _:
            return None


def proven(code: Sequence[Statement], given: Given) -> list[bool]:
    """Of each access whether there is a proof that it is inside."""
    found, numbers = accesses(code, given)
    return [is_inside(each, numbers) for each in found]


def given_of(source: KernelSource, body: Graph, mesh: Mesh) -> Given:
    """The facts of a launch of the kernel of a body."""
    values = {"operand": body.inputs, "result": body.outputs}
    found = list(zip(parameters(source.text, source.entry), source.params, strict=False))
    sizes = {name: values[kind][which].type.size for name, (kind, which) in found if kind in values}
    counts = {name: mesh.group_size(which) for name, (kind, which) in found if kind == "coordinate"}
    return Given(sizes, counts, source.grid[0], source.constants)


def questions(code: Sequence[Statement], given: Given) -> list[Any]:
    """What is to be proven of each access, up to the numbers of variables."""
    return [_question(each) for each in accesses(code, given)[0]]


def _question(access: Access) -> tuple[Any, ...]:
    asked = access.question
    if asked is None:
        return access.names, access.trips
    sides = [sorted(re.sub(r"#\d+", "", repr(each)) for each in side) for side in (asked.needs, asked.facts)]
    terms = sorted(re.sub(r"#\d+", "", repr(term)) for term in asked.offset.terms)
    return access.names, access.trips, terms, asked.offset.const, *sides, asked.size
