"""The `donate` option of the Python interface: which arguments are donated, and which result is the next value of each.

    donate=["params", "opt"]                 the next value of an argument is the result with the same structure
                                             (`pair_donations.py`)
    donate={"params": 0, "opt": "result.1"}  result 0 is the next value of `params`, result 1 that of `opt`

Arguments are given by name or number. A result is given by its number, or by its path in the returned structure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from meshgen.calls.argument_tree import Node, Slot, slots_of
from meshgen.calls.signature import Signature
from meshgen.calls.trees import canonical
from meshgen.errors import Diagnostic, UsageError
from meshgen.frontend.pair_donations import pair_by_key
from meshgen.frontend.specs import matched, results_of
from meshgen.ir.graph import Module

Donate: TypeAlias = str | int | Sequence[str | int] | Mapping[str | int, str | int] | None


def with_donations(module: Module, donate: Donate, signature: Signature) -> Module:
    """Return the module with the donations of the option `donate` added to the module's own donations.

    Raises:
        UsageError: MG0001, an argument or result is unknown, or the structures of an argument and its result differ.
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
        for input_slot, output_slot in _paired(argument, inputs, node, result, _result(module, signature, result)):
            if input_slot.number is not None:
                donations[input_slot.number] = output_slot.number
    return replace(module, donations=donations)


def _paired(
    argument: str | int, inputs: Sequence[Slot], node: Node | None, result: str | int, target: Node | list[Slot]
) -> list[tuple[Slot, Slot]]:
    """Pair the arrays `inputs` of an argument with those of a result: by key if both have the same keys, else in order."""
    if node is not None and not isinstance(target, list) and (pairs := pair_by_key(node, target)) is not None:
        return pairs
    outputs = target if isinstance(target, list) else list(slots_of(target))
    used_inputs = [slot for slot in inputs if slot.number is not None]
    if len(used_inputs) != len(outputs):
        text = f"donate: '{argument}' is {len(used_inputs)} arrays, but '{result}' is {len(outputs)}"
        raise UsageError(Diagnostic("MG0001", text, hint="give a result of the same structure"))
    return list(zip(used_inputs, outputs, strict=True))


def _donations(donate: Any) -> dict[Any, Any]:
    """Map each donated argument to the result that `donate` gives for it, or to None if `donate` is only a list."""
    if isinstance(donate, Mapping):
        results_by_argument = dict(cast("Mapping[Any, Any]", donate))
    else:
        listed = [donate] if isinstance(donate, str | int) else donate
        results_by_argument = dict.fromkeys(listed) if isinstance(listed, list | tuple | set) else {None: None}
    references = [*results_by_argument, *(result for result in results_by_argument.values() if result is not None)]
    if not all(isinstance(reference, str | int) and not isinstance(reference, bool) for reference in references):
        hint = 'give names or numbers of arguments, or a dict from them to results: donate={"params": 0}'
        raise UsageError(Diagnostic("MG0001", f"donate must name arguments, got {donate!r:.60}", hint=hint))
    return results_by_argument


def _result(module: Module, signature: Signature, result: str | int) -> Node | list[Slot]:
    """Return the result at path `result` of the returned structure, or else all result arrays with a matching name."""
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
    """Return the leaves of the arguments or results whose names match `name`, in order."""
    return [slot for slot, _ in matched(word, signature, {name: True})]
