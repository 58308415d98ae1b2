"""Donated arguments in the Python interface: by name, by number, or in the structure of the arguments.

donate=["params", "opt"]                  each array is overwritten by some result of its type and sharding, in order
donate={"params": 0, "opt": "result.1"}   those of `params` by what the function returns first, those of `opt` by the second
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from meshgen.calls.nodes import Slot, slots_of
from meshgen.calls.signature import Signature
from meshgen.errors import Diagnostic, UsageError
from meshgen.frontend.specs import matched, results_of
from meshgen.ir.graph import Annotation, Module

Donate: TypeAlias = str | int | Sequence[str | int] | Mapping[str | int, str | int] | None


def donating(module: Module, donate: Donate, signature: Signature) -> Module:
    """The module with these arguments donated, in addition to those that the program itself donates.

    Raises UsageError MG0001 for unknown arguments and results, and for structures that do not match.
    """
    if donate is None:
        return module
    found = dict(module.donations)
    for argument, result in _donations(donate).items():
        inputs = _slot_numbers("argument", signature, _slot_name(argument, "arg"))
        outputs = [None] * len(inputs) if result is None else _results(module, signature, result)
        if len(inputs) != len(outputs):
            text = f"donate: '{argument}' is {len(inputs)} arrays, but '{result}' is {len(outputs)}"
            raise UsageError(Diagnostic("MG0001", text, hint="give a result of the same structure"))
        found |= dict(zip(inputs, outputs, strict=True))
    return replace(module, donations=found)


def with_next_shardings(module: Module) -> Module:
    """The module with hints: results without annotation get the sharding of the argument whose memory they reuse."""
    annotations = list(module.out_annotations)
    for number, output in module.donations.items():
        own = module.in_annotations[number]
        if output is not None and own is not None and annotations[output] is None:
            annotations[output] = Annotation(own.sharding, False, own.open_dims, own.loc)
    return replace(module, out_annotations=annotations) if module.stage == "import" else module


def _donations(donate: Any) -> dict[Any, Any]:
    """Arguments with the result that each is donated to; None: any that fits."""
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


def _results(module: Module, signature: Signature, result: str | int) -> list[int]:
    """The outputs of a result: by name, or by its number among those that the function returns."""
    known = signature.result
    if isinstance(result, int) and isinstance(known, dict) and (node := known.get(str(result))) is not None:
        return [slot.number for slot in slots_of(node) if slot.number is not None]
    is_only = result == 0 and isinstance(known, Slot)
    return _slot_numbers(
        "result", results_of(module, signature), "result" if is_only else _slot_name(result, "result.")
    )


def _slot_name(word: str | int, before: str) -> str:
    return word if isinstance(word, str) else f"{before}{word}"


def _slot_numbers(word: str, signature: Signature, name: str) -> list[int]:
    """The inputs or outputs of a structure in order; arguments that the program does not use have none."""
    return [slot.number for slot, _ in matched(word, signature, {name: True}) if slot.number is not None]
