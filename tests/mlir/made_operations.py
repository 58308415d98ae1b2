"""Random operations built from op signatures.

Operands, results, regions and properties have a valid count and kind, but arbitrary types. Most operations are invalid
and must be refused; none may cause an internal error.
"""

from __future__ import annotations

import functools
import io
import zlib
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OpDef,
    OperandDef,
    OptPropertyDef,
    ResultDef,
)
from xdsl.printer import Printer

from meshgen.mlir.attributes import integers
from meshgen.mlir.families import dialects
from meshgen.mlir.operation_signature import KINDS, Body, Count, Letters, Property, Signature
from meshgen.mlir.parser import TextParser
from tests.mlir.every_op import NAMES as PROGRAMS
from tests.mlir.every_op import program

T = TypeVar("T")
Groups = Sequence[tuple[str, OperandDef | ResultDef]]
_DATA = Path(__file__).parents[1] / "data"
CONTEXT = dialects().context
CLASSES: dict[str, type[Operation]] = {op_class.name: op_class for op_class in CONTEXT.loaded_ops}
NAMES = sorted(dialects().importers)
TYPES = tuple(
    TextParser(CONTEXT, text, "-").parse_type()
    for text in (
        "tensor<4x6xf32>", "tensor<6x6xf32>", "tensor<4x6xi32>", "tensor<4x6xi1>", "tensor<6xf32>", "tensor<f32>", "tensor<i1>",
        "tensor<2xi64>", "tensor<1x4x4x2xf32>", "tensor<2x2x2x3xf32>", "tensor<2x3x4xf32>", "tensor<?x6xf32>", "tensor<0x6xf32>",
        "tensor<4x6xi8>", "tensor<3x2xindex>", "tensor<4xcomplex<f32>>", "f32", "i32", "i1", "index",
    )
)  # fmt: skip
_ELEMENTS = TextParser(CONTEXT, "dense<[1, 2]> : tensor<2xi32>", "-").parse_attribute()
_SAMPLES = [  # attributes of kinds that no property in the tests' valid programs has
    TextParser(CONTEXT, text, "-").parse_attribute()
    for text in (
        "#chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], "
        "rhs_group_dimensions = [0]>",
        '#sdy<axis_ref_list{"x"}>',
        "#shard<partial max>",
        "#shard<axisarray[[0, 1]]>",
        '#sdy<list_of_axis_ref_lists[{"x"}, {}]>',
    )
]
_LISTS = ([], [0], [1], [0, 1], [1, 1], [2, 2], [1, 0], [1, 2, 3], [0, 0, 0, 0], [1, 1, 1, 1], [-1, 2], [0] * 6)
_TERMINATORS = {"scf": "scf.yield", "tosa": "tosa.yield", "tensor": "tensor.yield", "linalg": "linalg.yield", "sdy": "sdy.return"}  # fmt: skip
_SEGMENTS = "operandSegmentSizes"


def numbers(entries: Sequence[int]) -> Attribute:
    """Return the attribute `array<i64: ...>`."""
    return builtin.DenseArrayBase.from_list(builtin.i64, list(entries))


def definition(name: str) -> OpDef:
    """Return the xDSL definition of an op, or an empty one if only a signature defines the op."""
    operation_class = CLASSES[name]
    return operation_class.get_irdl_definition() if issubclass(operation_class, IRDLOperation) else OpDef(name)


def signature_of(name: str) -> Signature:
    """Return the signature of an op. If it has none, derive one from its xDSL definition."""
    if (signature := dialects().signature_of(CLASSES[name])) is not None:
        return signature
    op_definition = definition(name)
    return Signature.read(f"{len(op_definition.operands)} -> {len(op_definition.results)}")


def is_open(name: str) -> bool:
    """Whether the definition leaves the number of operands, results or regions open."""
    op_definition = definition(name)
    is_fixed = all(type(group) is OperandDef for _, group in op_definition.operands)
    is_fixed &= all(type(group) is ResultDef for _, group in op_definition.results)
    return not is_fixed or bool(op_definition.regions)


def is_type_allowed(groups: Groups, number: int, kind: Attribute) -> bool:
    """Whether operand or result `number` may have type `kind`. Assumes that each group but the last has one member."""
    if not groups:
        return True
    constraint = groups[min(number, len(groups) - 1)][1].constr
    return constraint.verifies([kind])


@functools.cache
def sample_properties() -> dict[str, list[Attribute]]:
    """Return the properties of ops in valid programs, by property name. The bf16 models add none and are skipped."""
    properties: dict[str, list[Attribute]] = {}
    files = sorted(path for path in _DATA.rglob("*.mlir") if path.parent.name != "bf16")
    for text in (*map(program, PROGRAMS), *(path.read_text() for path in files)):
        for operation in TextParser(CONTEXT, text, "-").parse_module().walk():
            for key, attribute in operation.properties.items():
                properties.setdefault(key, []).append(attribute)
    return properties


class RandomOperations:
    """Builds random operations with a seeded generator."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.block = Block(arg_types=TYPES)
        self.function = func.FuncOp("main", (TYPES, ()), Region(self.block))
        self.module = builtin.ModuleOp([self.function])
        # the value that most operands are, or None to pick one value per op
        self.first = self.pick([None, *self.block.args])
        self.likeness = self.pick((0.6, 0.8, 1.0))

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def values(self, count: int, block_args: Sequence[SSAValue] = (), groups: Groups = ()) -> list[SSAValue]:
        """Return `count` random values of types that `groups` allows. Most of them repeat one value (see `likeness`)."""
        candidates = [*self.block.args, *block_args]
        first, chosen = self.first or self.pick(candidates), list[SSAValue]()
        for number in range(count):
            fitting = [value for value in candidates if is_type_allowed(groups, number, value.type)] or candidates
            chosen.append(first if first in fitting and self.rng.random() < self.likeness else self.pick(fitting))
        return chosen

    def types(self, count: int, like: Sequence[SSAValue], groups: Groups = ()) -> list[Attribute]:
        types: list[Attribute] = []
        for number in range(count):
            fitting = [kind for kind in TYPES if is_type_allowed(groups, number, kind)] or TYPES
            near = [value.type for value in like if value.type in fitting]
            types.append(self.pick(near if near and self.rng.random() < self.likeness else fitting))
        return types

    def count(self, count: Count, letters: Letters) -> int:
        """Return a random number that `count` allows, after binding unbound letters of `count` to random numbers."""
        for letter, _ in count.factors:
            letters.setdefault(letter, int(self.rng.integers(3)))
        most = count.least + 2 if count.most is None else count.most
        return int(self.rng.integers(count.least, most + 1)) + sum(f * letters[x] for x, f in count.factors)

    def attribute(self, kind: str, length: int | None) -> Attribute:
        lists = [entries for entries in _LISTS if length is None or len(entries) == length] or [[0] * (length or 0)]
        entries = [int(n) for n in self.rng.permutation(self.pick(lists))]
        size = 2 if length is None else length
        constructors: dict[str, Callable[[], Attribute]] = {
            "integer": lambda: builtin.IntegerAttr(int(self.rng.integers(-2, 4)), 64),
            "number": lambda: builtin.FloatAttr(1.5, 32) if self.rng.random() < 0.5 else builtin.IntegerAttr(2, 32),
            "float": lambda: builtin.FloatAttr(1.5, 32),
            "flag": lambda: builtin.IntegerAttr(int(self.rng.integers(2)), 1),
            "unit": builtin.UnitAttr,
            "string": lambda: builtin.StringAttr(self.pick(("add", "arith.addf", "eq", "olt", "to_nearest_even", "?"))),
            "symbol": lambda: builtin.SymbolRefAttr("m"),
            "type": lambda: builtin.f32,
            "elements": lambda: _ELEMENTS,
            "array": lambda: builtin.ArrayAttr([builtin.UnitAttr()]),
            "strings": lambda: builtin.ArrayAttr([builtin.StringAttr("x")] * size),
            "integers": lambda: numbers(entries),
            "open": lambda: numbers(entries),
            "counts": lambda: builtin.DenseArrayBase.from_list(builtin.i32, [abs(n) for n in entries]),
            "map": lambda: builtin.AffineMapAttr(self.map(max(1, size), 1)),
            "maps": lambda: builtin.ArrayAttr([builtin.AffineMapAttr(self.map(2)) for _ in range(size)]),
            "any": lambda: self.attribute(self.pick([name for name in KINDS if name != "any"]), None),
        }
        return constructors[kind]() if kind in constructors else builtin.StringAttr(kind)

    def map(self, dims: int, least: int = 0) -> AffineMap:
        loops = [AffineExpr.dimension(int(d)) for d in self.rng.permutation(dims)]
        return AffineMap(dims, 0, tuple(loops[: int(self.rng.integers(least, dims + 1))]))

    def properties(self, name: str, signature: Signature, letters: Letters) -> dict[str, Attribute]:
        properties: dict[str, Attribute] = {}
        for entry in signature.properties:
            if entry.kinds == ("open",) and entry.length is not None:
                sizes, count = integers(properties.get(entry.name)), self.count(entry.length, letters)
                properties[entry.name] = numbers([DYNAMIC_INDEX] * count + list(sizes[count:]))
            elif not entry.is_optional or self.rng.random() < 0.3:
                properties[entry.name] = self.property(entry, letters)
        for key, property_definition in definition(name).properties.items():
            is_listed = any(entry.name == key for entry in signature.properties)
            if (
                is_listed
                or key in properties
                or (isinstance(property_definition, OptPropertyDef) and self.rng.random() < 0.5)
            ):
                continue
            candidates = [*sample_properties().get(key, ()), *(self.attribute(kind, None) for kind in KINDS)]
            fitting = list(islice(filter(property_definition.constr.verifies, candidates), 4))
            if fitting:
                properties[key] = self.pick(fitting)
        return properties

    def property(self, entry: Property, letters: Letters) -> Attribute:
        kind = self.pick(entry.kinds)
        if "." in kind:
            return next(
                attribute
                for attribute in (*sample_properties().get(entry.name, ()), *_SAMPLES)
                if attribute.name in entry.kinds
            )
        return self.attribute(kind, None if entry.length is None else self.count(entry.length, letters))

    def region(self, name: str, number: int, body: Body, letters: Letters) -> Region:
        block = Block(arg_types=self.types(self.count(body.takes, letters), []))
        ends = self.values(self.count(body.gives, letters) if body.gives else 0, block.args)
        end = _TERMINATORS.get(name.partition(".")[0], "stablehlo.return")
        special = {
            ("scf.while", 0): "scf.condition",
            ("scf.reduce", number): "scf.reduce.return",
            ("scf.parallel", 0): "scf.reduce",
        }
        if name == "scf.forall":
            block.add_op(CLASSES["scf.forall.in_parallel"].create(regions=[Region(Block())]))
        elif body.gives is not None:
            end = special.get((name, number), end)
            regions = (
                [self.region("scf.reduce", 0, signature_of("scf.reduce").regions[0], {}) for _ in ends]
                if end == "scf.reduce"
                else []
            )
            block.add_op(CLASSES[end].create(operands=ends, regions=regions))
        return Region(block)

    def operation(self, name: str) -> Operation:
        """Return a random operation whose operand, result, property and region counts match its signature."""
        signature, letters = signature_of(name), Letters()
        (results,) = (self.count(count, letters) for count in signature.results.counts)
        segments = [self.count(count, letters) for count in signature.operands.counts]
        operands = self.values(sum(segments), groups=definition(name).operands)
        properties = self.properties(name, signature, letters)
        if len(segments) == 1 and any(
            isinstance(option, AttrSizedOperandSegments) for option in definition(name).options
        ):
            segments = self.segments(name, len(operands))
        if len(segments) > 1:
            properties[_SEGMENTS] = builtin.DenseArrayBase.from_list(builtin.i32, segments)
        regions = [
            self.region(name, number, body, letters)
            for number, body in enumerate(signature.regions)
            for _ in range(
                1
                if body.repeat in ("", "+")
                else letters[body.repeat]
                if body.repeat.isalpha()
                else int(self.rng.integers(2))
            )
        ]
        return CLASSES[name].create(
            operands=operands,
            result_types=self.types(results, operands, definition(name).results),
            properties=properties,
            regions=regions,
        )

    def segments(self, name: str, count: int) -> list[int]:
        """Return operand group sizes that add up to `count`. Each group but the last has its minimum size."""
        sizes = [1 if type(group) is OperandDef else 0 for _, group in definition(name).operands]
        sizes[-1] += count - sum(sizes)
        return sizes

    def program(self, operation: Operation) -> str:
        """Return the text of a function that runs `operation` and returns its results."""
        self.block.add_op(operation)
        self.block.add_op(func.ReturnOp(*operation.results))
        self.function.properties["function_type"] = builtin.FunctionType.from_lists(TYPES, list(operation.result_types))
        return printed(self.module)


def printed(top: Operation) -> str:
    """Print `top` in generic form, which can represent invalid operations, after a mesh to which properties may refer."""
    stream = io.StringIO()
    Printer(stream=stream, print_generic_format=True).print_op(top)
    mesh = '"sdy.mesh"() <{sym_name = "m", mesh = #sdy.mesh<["x"=2, "y"=2]>}> : () -> ()'
    return stream.getvalue().replace("({\n", f"({{\n  {mesh}\n", 1)


def random_program(name: str, seed: int) -> str:
    """Return a program of one random operation."""
    generator = RandomOperations(seed, zlib.crc32(name.encode()))
    return generator.program(generator.operation(name))
