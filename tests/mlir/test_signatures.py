"""Tests of op signatures: every importable op has one, and ops that violate it are refused at their location."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from xdsl.dialects import builtin, func
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import AnyAttr

from meshgen.errors import MeshgenError, ProgramError
from meshgen.mlir.families import dialects
from meshgen.mlir.module import import_module
from meshgen.mlir.operation_signature import KINDS, Count, Signature, is_kind
from meshgen.mlir.reader_state import Reading, Source
from meshgen.mlir.text import parse_text
from meshgen.mlir.verifying import verify_definition, verify_operations
from tests.mlir.made_operations import CLASSES, NAMES, TYPES, RandomOperations, definition, is_open, random_program
from tests.sources import refuse

OF_DIALECT: dict[str, list[str]] = {}
for name in NAMES:
    OF_DIALECT.setdefault(name.partition(".")[0], []).append(name)


def has_complete_signature(name: str) -> bool:
    """Whether the definition or the signature of op `name` fixes its operands, results, regions and properties."""
    signature = dialects().signature_of(CLASSES[name])
    listed = {entry.name for entry in signature.properties} if signature else set[str]()
    open_kinds = {key for key, entry in definition(name).properties.items() if isinstance(entry.constr, AnyAttr)}
    return (signature is not None or not is_open(name)) and open_kinds <= listed


def test_every_importable_op_has_a_complete_signature() -> None:
    refuse([name for name in NAMES if not has_complete_signature(name)])


@pytest.mark.parametrize(
    "line",
    [
        "%r = stablehlo.iota dim = 1 {iota_dimension = 0 : i64} : tensor<4x6xf32>",
        '%r = "stablehlo.iota"() <{iota_dimension = 1 : i64}> {iota_dimension = 0 : i64} : () -> tensor<4x6xf32>',
        '%r = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<4x6xf32>',
    ],
)
def test_properties_win_over_attributes_of_the_same_name(line: str) -> None:
    text = f"func.func @main() -> tensor<4x6xf32> {{\n{line}\nreturn %r : tensor<4x6xf32>\n}}"
    (iota,) = parse_text(text).graph.nodes
    assert iota.attrs.dim == 1


def test_every_signature_belongs_to_an_importable_op() -> None:
    assert set(dialects().signatures) <= set(dialects().importers)


@pytest.mark.parametrize(
    ("text", "operands", "results", "fault"),
    [
        ("2 -> 1", 3, 1, "has 3 operands instead of 2"),
        ("1..3 -> 1", 4, 1, "has 4 operands instead of 1 to 3"),
        ("1.. -> 1", 0, 1, "has 0 operands instead of 1 or more"),
        ("_ -> 2", 9, 1, "has 1 results instead of 2"),
        ("3+n -> n", 5, 1, "has 5 operands instead of 4"),
        ("2n -> n", 4, 3, "has 4 operands instead of 6"),
        ("2+2n -> 1+n", 2, 0, "has 0 results instead of 1+n"),
        ("1 integer -> 1", 1, 1, "operands must be integers, got tensor<4x6xf32>"),
        ("0 -> 0 {1}", 0, 0, "has 0 regions instead of 1"),
        ("0 -> 0 <axis: integer>", 0, 0, "needs the property axis"),
    ],
)
def test_signature_notation_reports_its_fault(text: str, operands: int, results: int, fault: str) -> None:
    generator = RandomOperations(0)
    operation = CLASSES["stablehlo.custom_call"].create(
        operands=[generator.block.args[0]] * operands, result_types=[TYPES[0]] * results
    )
    assert fault in Signature.read(text).faults(operation)


@pytest.mark.parametrize(
    ("text", "count", "letters", "accepted"),
    [
        ("3+n", 5, {}, True),
        ("3+n", 2, {}, False),
        ("2n", 3, {}, False),
        ("m+n", 4, {"n": 5}, False),
        ("_", 7, {}, True),
    ],
)
def test_signature_counts_solve_for_letters(text: str, count: int, letters: dict[str, int], accepted: bool) -> None:
    assert Count.read(text).accepts(count, dict(letters)) == accepted


WRONG = {
    kind: RandomOperations(1).attribute(kind, None)
    for kind in ("unit", "string", "integer", "integers", "map", "array", "elements")
}


def variants(operation: Operation) -> Iterator[tuple[str, Callable[[], Operation]]]:
    """Yield changed copies of `operation`, each as a description and a function that builds the copy.

    A copy has one operand, result, region, argument or property more or fewer, or a property of another kind.
    """

    def regions() -> list[Region]:
        return [region.clone() for region in operation.regions]

    def changed(description: str, **parts: Any) -> tuple[str, Callable[[], Operation]]:
        fields: dict[str, Any] = {
            "operands": operation.operands,
            "result_types": operation.result_types,
            "properties": operation.properties,
        } | parts
        return description, lambda: type(operation).create(**{"regions": regions()} | fields)  # pyright: ignore[reportArgumentType]

    def with_an_argument() -> Operation:
        clone = operation.clone()
        clone.regions[0].blocks[0].insert_arg(TYPES[0], 0)
        return clone

    operands, types, properties = list(operation.operands), list(operation.result_types), dict(operation.properties)
    value = operands[0] if operands else operation.parent_block().args[0]  # pyright: ignore[reportOptionalMemberAccess]
    yield changed("an operand more", operands=[*operands, value])
    yield changed("a result more", result_types=[*types, TYPES[0]])
    yield changed("a region more", regions=[*regions(), Region(Block())])
    if operands:
        yield changed("an operand fewer", operands=operands[:-1])
    if types:
        yield changed("a result fewer", result_types=types[:-1])
    if operation.regions and operation.regions[0].blocks:
        yield changed("a region fewer", regions=regions()[:-1])
        yield changed("an empty region", regions=[Region() for _ in operation.regions])
        yield "an argument more", with_an_argument
    for name in properties:
        yield changed(f"no {name}", properties={key: attribute for key, attribute in properties.items() if key != name})
        for kind, attribute in WRONG.items():
            yield changed(f"{name} is {kind}", properties=properties | {name: attribute})


def is_wrong(operation: Operation) -> bool:
    """Whether the definition or the signature of an operation says that it is invalid."""
    try:
        if operation.name != "func.call":  # the called function does not exist
            verify_definition(operation)
    except Exception:  # xDSL's verifiers raise many exception types
        return True
    signature = dialects().signature_of(type(operation))
    return signature is not None and bool(signature.faults(operation))


def signature_key(name: str) -> str:
    """Return the signature and xDSL definition of an op as a key.

    Changed copies (`variants`) of two ops with equal keys are invalid for the same changes.
    """
    op_definition, custom_verifier = (
        definition(name),
        inspect.getclosurevars(CLASSES[name].verify_).nonlocals.get("custom_verify"),
    )
    traits = sorted(map(repr, CLASSES[name].traits))
    return repr(
        (
            dialects().signature_of(CLASSES[name]),
            custom_verifier,
            op_definition.operands,
            op_definition.results,
            op_definition.properties,
            op_definition.regions,
            op_definition.options,
            traits,
        )
    )


def accepted_variants(name: str, is_wrong_by_variant: dict[str, bool]) -> Iterator[str]:
    """Yield the invalid changed copies of an op that the importer accepts.

    `is_wrong_by_variant` caches, for ops with the same `signature_key`, which changes make a copy invalid.
    """
    generator = RandomOperations(0, 7)
    operation, top = generator.operation(name), generator.module
    generator.block.add_op(operation)
    for description, make in list(variants(operation)):
        if is_wrong_by_variant.get(description):
            continue
        for op in list(generator.block.ops):
            op.detach()
        generator.block.add_ops([variant := make(), func.ReturnOp()])
        is_wrong_by_variant[description], reading = is_wrong(variant), Reading(Source(), dialects())
        if is_wrong_by_variant[description]:
            with contextlib.suppress(ProgramError):
                verify_operations(top, reading)
            if {fault.code for fault in reading.faults} != {"MG0104"}:
                yield f"{name}: {description}"
        elif name != "func.call":
            with contextlib.suppress(MeshgenError):
                import_module(top, Source(), dialects())


@pytest.mark.parametrize("dialect", OF_DIALECT)
def test_ops_that_violate_their_signature_are_refused(dialect: str) -> None:
    verdicts: dict[str, dict[str, bool]] = {}
    refuse(
        [
            fault
            for name in OF_DIALECT[dialect]
            for fault in accepted_variants(name, verdicts.setdefault(signature_key(name), {}))
        ]
    )


@pytest.mark.parametrize("dialect", OF_DIALECT)
def test_random_ops_of_valid_counts_cause_no_internal_error(dialect: str) -> None:
    """This tries one program per op with random types and values; `python -m tests.mutants` tries thousands."""
    for name in OF_DIALECT[dialect]:
        with contextlib.suppress(MeshgenError):
            parse_text(random_program(name, 0))


@pytest.mark.parametrize("kind", KINDS)
def test_property_kind_accepts_only_its_attributes(kind: str) -> None:
    attribute: Attribute = RandomOperations(0).attribute(kind, None)
    assert is_kind(attribute, kind)
    assert kind == "any" or not is_kind(builtin.DictionaryAttr({}), kind)


def test_properties_are_read_from_the_attribute_dictionary() -> None:
    """There too, a property of the wrong kind is refused."""
    text = """"func.func"() <{sym_name = "f", function_type = (tensor<4x6xf32>) -> tensor<4x1xf32>}> ({
  ^bb0(%x: tensor<4x6xf32>):
    %r = "tosa.reduce_sum"(%x) {axis = AXIS} : (tensor<4x6xf32>) -> tensor<4x1xf32>
    "func.return"(%r) : (tensor<4x1xf32>) -> ()
  }) : () -> ()"""
    parse_text(text.replace("AXIS", "1 : i32"))
    with pytest.raises(ProgramError, match=r"tosa\.reduce_sum: axis must be an integer, got unit"):
        parse_text(text.replace("AXIS", "unit"))
