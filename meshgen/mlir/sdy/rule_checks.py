"""Check the sharding rules that Shardy programs attach to operations.

    #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k}>

meshgen has its own rules for all supported operations, so a rule in the text is checked but not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import TensorType
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.sdy.attributes import ShardingRuleAttr
from meshgen.mlir.sdy.spelling import Tokens

_FACTOR = re.compile(r"z_[1-9]\d*|[i-z]")
_FACTORS = re.compile(rf"(?:{_FACTOR.pattern})+")
_LETTERS = "ijklmnopqrstuvwxyz"  # Names of factors. Further factors are named z_1, z_2, ...
# The sets of factors in a rule, in the order of Shardy's text
_SETS = ("reduction", "need_replication", "permutation", "blocked_propagation")
_EXCLUSIVE = _SETS[:3]

_Dims = tuple[tuple[str, ...], ...]  # for each dim of a tensor, its factors from major to minor


class _Rule(NamedTuple):
    operands: tuple[_Dims, ...]
    results: tuple[_Dims, ...]
    sizes: tuple[tuple[str, int], ...]
    sets: tuple[tuple[str, tuple[str, ...]], ...]
    is_custom: bool


def rule_fault(rule: str, operands: Sequence[TensorType], results: Sequence[TensorType], is_call: bool = True) -> str:
    """Return an error message if `rule` is invalid for an operation with these operand and result types, else "".

    Only a custom call (`is_call`) may have a rule that is marked `custom`.
    """
    try:
        read = _parse_rule(Tokens(rule))
    except ValueError as error:
        return f"must have the form ([i, j])->([i, j]) {{i=8, j=8}}: {error}"
    if read.is_custom and not is_call:
        return "is custom, but the operation is not a stablehlo.custom_call"
    return next(_faults(read, operands, results), "")


def _parse_rule(tokens: Tokens) -> _Rule:
    """Parse a sharding rule. Raises ValueError if it is malformed."""

    def factors() -> tuple[str, ...]:
        word = tokens.take()
        if not _FACTORS.fullmatch(word):
            raise ValueError(f"expected factors, which are i to z, z_1, z_2, ..., got '{word}'")
        return tuple(_FACTOR.findall(word))

    def factor() -> str:
        names = factors()
        if len(names) != 1:
            raise ValueError(f"expected one factor, got '{''.join(names)}'")
        return names[0]

    def size() -> tuple[str, int]:
        name = factor()
        tokens.expect("=")
        return name, tokens.number()

    def tensor() -> _Dims:
        return tokens.listed("[", factors, "]")

    operands = tokens.listed("(", tensor, ")")
    tokens.expect("->")
    results = tokens.listed("(", tensor, ")")
    sizes = tokens.listed("{", size, "}") if tokens.next == "{" else ()
    sets: list[tuple[str, tuple[str, ...]]] = []
    for name in _SETS:
        if tokens.accept(name):
            tokens.expect("=")
            sets.append((name, tokens.listed("{", factor, "}")))
    is_custom = tokens.accept(",")
    if is_custom:
        tokens.expect("custom")
    tokens.end()
    return _Rule(operands, results, sizes, tuple(sets), is_custom)


def _faults(rule: _Rule, operands: Sequence[TensorType], results: Sequence[TensorType]) -> Iterator[str]:
    for index, (name, _) in enumerate(rule.sizes):
        if name != (expected := _factor_name(index)):
            yield f"gives factor {name} a size where {expected} is next: factors are i, j, k, ... in order"
    sizes = dict(rule.sizes)
    for role, tensors, types in (("operand", rule.operands, operands), ("result", rule.results, results)):
        if len(tensors) != len(types):
            yield f"has {len(tensors)} {role}s, but the operation {len(types)}"
        for index, (dims, type) in enumerate(zip(tensors, types, strict=False)):
            yield from (f"{role} {index} {message}" for message in _dims_faults(dims, type, sizes))
    used = {factor for dims in (*rule.operands, *rule.results) for factors in dims for factor in factors}
    yield from (f"names factor {factor} without giving its size" for factor in sorted(used - set(sizes)))
    yield from (f"gives factor {name} a size, but no dim has it" for name in sizes if name not in used)
    yield from _set_faults(rule, sizes)


def _factor_name(index: int) -> str:
    return _LETTERS[index] if index < len(_LETTERS) else f"z_{index - len(_LETTERS) + 1}"


def _dims_faults(dims: _Dims, kind: TensorType, sizes: dict[str, int]) -> Iterator[str]:
    """Yield the faults in `dims`, the factors of one operand or result of type `kind`.

    The product of a dim's factor sizes may differ from its size: for example, a slice has the factors of its operand.
    """
    if len(dims) != kind.rank:
        yield f"has {len(dims)} dims, but the tensor is {kind}"
    seen = [factor for factors in dims for factor in factors]
    yield from (f"has factor {factor} twice" for factor in seen if seen.count(factor) > 1)
    combined = [factor for factors in dims if len(factors) > 1 for factor in factors]
    yield from (
        f"has factor {factor} of size 1 beside others in a dim" for factor in combined if sizes.get(factor) == 1
    )


def _set_faults(rule: _Rule, sizes: dict[str, int]) -> Iterator[str]:
    order, seen = list(sizes), dict[str, str]()
    result_factors = {factor for dims in rule.results for factors in dims for factor in factors}
    for kind, factors in rule.sets:
        yield from (f"{kind} has factor {factor}, which is in no dim" for factor in factors if factor not in sizes)
        if [*factors] != [factor for factor in order if factor in factors]:
            yield f"{kind} must name each factor once, in the order of their sizes, got {', '.join(factors)}"
        for factor in factors if kind in _EXCLUSIVE else ():
            if factor in seen:
                yield f"factor {factor} is in {seen[factor]} and in {kind}"
            seen[factor] = kind
            if kind == "reduction" and factor in result_factors:
                yield f"reduction has factor {factor}, which is a dim of a result"


def _read_rule(importer: Importer, operation: Operation, attribute: Attribute) -> None:
    if not isinstance(attribute, ShardingRuleAttr):
        importer.fault("MG0204", f"{operation.name}: sdy.sharding_rule must be #sdy.op_sharding_rule<...>", operation)
        return
    operands, results = (
        [importer.type(value) for value in values] for values in (operation.operands, operation.results)
    )
    if message := rule_fault(attribute.data, operands, results, operation.name == "stablehlo.custom_call"):
        importer.fault("MG0204", f"{operation.name}: its sharding rule {message}", operation)


PART = Dialect(result_attrs={"sdy.sharding_rule": _read_rule})
