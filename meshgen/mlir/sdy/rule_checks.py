"""Shardy's constraints on a sharding rule: the dims of its operation, and factors that it declares.

    #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k}>

Known operations have rules of meshgen; a user's rule is only checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import TensorType
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.sdy.attributes import ShardingRuleAttr

_PARTS = re.compile(
    r"\s*\((?P<operands>[^()]*)\)\s*->\s*\((?P<results>[^()]*)\)\s*(?:\{(?P<sizes>[^{}]*)\}(?P<rest>.*))?", re.DOTALL
)
_TENSOR = re.compile(r"\[([^\[\]]*)\]")
_FACTOR = re.compile(r"[a-z](?:_\d+)?")
_SIZE = re.compile(r"([a-z](?:_\d+)?)\s*=\s*(\d+)")
_SET = re.compile(r"(\w+)\s*=\s*\{([^{}]*)\}")
_KINDS = ("reduction", "need_replication", "permutation")


def rule_fault(rule: str, operands: Sequence[TensorType], results: Sequence[TensorType]) -> str:
    """The fault of a rule on an operation of these types; empty if there is none."""
    parts = _PARTS.fullmatch(rule)
    if parts is None:
        return "must have the form ([i, j])->([i, j]) {i=8, j=8}"
    sizes = {name: int(size) for name, size in _SIZE.findall(parts["sizes"] or "")}
    used: set[str] = set()
    for what, text, types in (("operand", parts["operands"], operands), ("result", parts["results"], results)):
        tensors = [_dims(body) for body in _TENSOR.findall(text)]
        if len(tensors) != len(types):
            return f"has {len(tensors)} {what}s, but the operation {len(types)}"
        for number, (dims, kind) in enumerate(zip(tensors, types, strict=True)):
            if len(dims) != kind.rank:
                return f"{what} {number} has {len(dims)} dims, but the tensor is {kind}"
            if message := _dims_fault(dims, sizes):
                return f"{what} {number} {message}"
            used.update(factor for factors in dims for factor in factors)
    return _factor_fault(used, sizes, parts["rest"] or "")


def _dims(text: str) -> list[list[str]]:
    """The factors of each dim, major to minor: `ij, k`."""
    return [_FACTOR.findall(word) for word in text.split(",")] if text.strip() else []


def _dims_fault(dims: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> str:
    """Sizes need not be those of the dims: a slice has the factors of what it is cut from."""
    seen = [factor for factors in dims for factor in factors]
    if not all(dims):
        return "has a dim without a factor"
    if again := next((factor for factor in seen if seen.count(factor) > 1), ""):
        return f"has factor {again} twice"
    one = next((f for factors in dims if len(factors) > 1 for f in factors if sizes.get(f) == 1), "")
    return f"has factor {one} of size 1 beside others in a dim" if one else ""


def _factor_fault(used: set[str], sizes: dict[str, int], rest: str) -> str:
    if unknown := sorted(used - set(sizes)):
        return f"names factor {unknown[0]} without giving its size"
    if idle := [name for name in sizes if name not in used]:
        return f"gives factor {idle[0]} a size, but no dim has it"
    seen: dict[str, str] = {}
    for kind, body in _SET.findall(rest):
        for factor in _FACTOR.findall(body):
            if factor not in sizes:
                return f"{kind} has factor {factor}, which is in no dim"
            if kind in _KINDS and factor in seen:
                return f"factor {factor} is in {seen[factor]} and in {kind}"
            if kind in _KINDS:
                seen[factor] = kind
    return ""


def _read_rule(importer: Importer, operation: Operation, attribute: Attribute) -> None:
    if not isinstance(attribute, ShardingRuleAttr):
        importer.fault("MG0204", f"{operation.name}: sdy.sharding_rule must be #sdy.op_sharding_rule<...>", operation)
        return
    operands, results = (
        [importer.type(value) for value in values] for values in (operation.operands, operation.results)
    )
    if message := rule_fault(attribute.data, operands, results):
        importer.fault("MG0204", f"{operation.name}: its sharding rule {message}", operation)


PART = Dialect(result_attrs={"sdy.sharding_rule": _read_rule})
