"""Donated arguments in the Python interface: by name, by number, or in the structure of the arguments.

donate=["params", "opt"]                  the next value of each is the result that has its structure (`next_values.py`)
donate={"params": 0, "opt": "result.1"}   the first result is the next value of `params`, the second that of `opt`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from meshgen.calls.nodes import Node, Slot, slots_of
from meshgen.calls.signature import Signature
from meshgen.calls.trees import canonical
from meshgen.errors import Diagnostic, UsageError
from meshgen.frontend.next_values import key_pairs
from meshgen.frontend.specs import matched, results_of
from meshgen.ir.graph import Module

Donate: TypeAlias = str | int | Sequence[str | int] | Mapping[str | int, str | int] | None


def donating(module: Module, donate: Donate, signature: Signature) -> Module:
    """Return the module with these arguments donated, in addition to the arguments that the program itself donates.

    Raises UsageError MG0001 for unknown arguments and results, and for structures that do not match.
    """
    if donate is None:
        return module
    donations = dict(module.donations)
    for argument, result in _donations(donate).items():
        inputs = _slots("argument", signature, _slot_name(argument, "arg"))
        if result is None:
            donations |= {slot.number: donations.get(slot.number) for slot in inputs if slot.number is not None}
            continue
        node = signature.node(_slot_name(argument, "arg"))
        for own, other in _paired(argument, inputs, node, result, _result(module, signature, result)):
            if own.number is not None:
                donations[own.number] = other.number
    return replace(module, donations=donations)


def _paired(
    argument: str | int, inputs: Sequence[Slot], node: Node | None, result: str | int, target: Node | list[Slot]
) -> list[tuple[Slot, Slot]]:
    """The arrays of an argument with those of a result: by key where both have the same keys, else in order."""
    if node is not None and not isinstance(target, list) and (pairs := key_pairs(node, target)) is not None:
        return pairs
    outputs = target if isinstance(target, list) else list(slots_of(target))
    used = [slot for slot in inputs if slot.number is not None]
    if len(used) != len(outputs):
        text = f"donate: '{argument}' is {len(used)} arrays, but '{result}' is {len(outputs)}"
        raise UsageError(Diagnostic("MG0001", text, hint="give a result of the same structure"))
    return list(zip(used, outputs, strict=True))


def _donations(donate: Any) -> dict[Any, Any]:
    """Arguments with the result that each is donated to; None: the result of its structure."""
    if isinstance(donate, Mapping):
        found = dict(cast("Mapping[Any, Any]", donate))
    else:
        listed = [donate] if isinstance(donate, str | int) else donate
        found = dict.fromkeys(listed) if isinstance(listed, list | tuple | set) else {None: None}
    words = [*found, *(result for result in found.values() if result is not None)]
    if not all(isinstance(word, str | int) and not isinstance(word, bool) for word in words):
        hint = 'give names or numbers of arguments, or a dict from them to results: donate={"params": 0}'
        raise UsageError(Diagnostic("MG0001", f"donate must name arguments, got {donate!r:.60}", hint=hint))
    return found


def _result(module: Module, signature: Signature, result: str | int) -> Node | list[Slot]:
    """A result by its path in the structure that the program returns, or by its name among all arrays that it returns."""
    results = results_of(module, signature)
    node: Node | None = signature.result
    keys = canonical(_slot_name(result, "result.")).split(".")
    for key in keys[1:]:
        node = node.get(key) if node is not None and not isinstance(node, Slot) else None
    if node is not None and keys[0] == "result":
        return node
    is_only = (
        result == 0
        and (signature.result is None or isinstance(signature.result, Slot))
        and len(module.graph.outputs) == 1
    )
    return _slots("result", results, "result" if is_only else _slot_name(result, "result."))


def _slot_name(word: str | int, before: str) -> str:
    return word if isinstance(word, str) else f"{before}{word}"


def _slots(word: str, signature: Signature, name: str) -> list[Slot]:
    """The leaves of the arguments or results of this name, or of names that match it, in order."""
    return [slot for slot, _ in matched(word, signature, {name: True})]
