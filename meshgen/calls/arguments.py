"""Arguments of a call as the arrays of the program's inputs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshgen.calls.arrays import NoArrayError, argument_array, plain_array
from meshgen.calls.signature import Signature
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.ir.graph import TensorType, dtype_name

Array = np.ndarray[Any, Any]


def bound_arrays(signature: Signature, types: Mapping[str, TensorType], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Array]:  # fmt: skip
    """The arrays of the arguments by input name; `types` are those of the inputs. Raises ArgumentError with all misfits."""
    found = signature.bind(args, kwargs)
    faults = [Diagnostic("MG0601", text, hint=f"the arguments are {signature}") for text in found.faults]
    arrays: dict[str, Array] = {}
    _tell_of_gradients(
        [slot.name for slot, given in found.pairs if slot.name not in signature.weight_names and _has_gradient(given)]
    )
    for slot, given in found.pairs:
        if slot.number is not None:
            try:
                arrays[slot.name] = argument_array(given, types.get(slot.name), slot.key, signature.narrows)
            except NoArrayError as error:
                faults.append(Diagnostic("MG0601", f"argument '{slot.name}' is {error.what}", hint=error.hint))
    if faults:
        raise ArgumentError(*faults)
    return arrays | {name: plain_array(given) for name, given in signature.weights.items() if name not in arrays}


def _has_gradient(given: Any) -> bool:
    """Whether PyTorch would compute a gradient of an argument."""
    torch = sys.modules.get("torch")
    return torch is not None and getattr(given, "requires_grad", False) is True and bool(torch.is_grad_enabled())


def _tell_of_gradients(names: Sequence[str]) -> None:
    if names:
        hint = "pass .detach(), or call it under torch.no_grad(); for gradients compile a step that computes them (mg.training_step)"
        text = f"arguments require grad, but results are arrays without a gradient: {', '.join(names)}; {hint}"
        warnings.warn(text, UserWarning, stacklevel=5)


def weight_arrays(signature: Signature, weights: Any) -> dict[str, Array]:
    """Weights by the names of inputs; given by name in any spelling, or in structures. Raises ArgumentError."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        text = f"weights must be a dict from names of inputs to arrays, got a {type(weights).__name__}"
        raise ArgumentError(Diagnostic("MG0601", text, hint=f"the arguments are {signature}"))
    texts: list[str] = []
    named = signature.named(weights, texts)
    faults = [Diagnostic("MG0601", text) for text in texts]
    arrays: dict[str, Array] = {}
    for name, given in named.items():
        _add(arrays, f"weight '{name}'", str(name), given, faults)
    if faults:
        raise ArgumentError(*faults)
    return arrays


def _add(arrays: dict[str, Array], what: str, name: str, given: Any, faults: list[Diagnostic]) -> None:
    try:
        arrays[name] = plain_array(given)
    except NoArrayError as error:
        faults.append(Diagnostic("MG0601", f"{what} is {error.what}", hint=error.hint))


def fitting(arrays: Mapping[str, Array], names: Sequence[str], types: Sequence[TensorType]) -> list[Array]:
    """The arrays in the order of the inputs. Raises ArgumentError for all of other types."""
    texts = [misfit(name, kind, arrays[name]) for name, kind in zip(names, types, strict=True)]
    faults = [Diagnostic("MG0601", text) for text in texts if text]
    if faults:
        raise ArgumentError(*faults)
    return [arrays[name] for name in names]


def misfit(name: str, kind: TensorType, array: Array) -> str:
    """The fault of an argument of another type; empty if there is none."""
    try:
        have = TensorType(array.shape, dtype_name(array.dtype))
    except KeyError:
        return f"argument '{name}' has unsupported element type {array.dtype}"
    return "" if have == kind else f"argument '{name}' has type {have}, but the program takes {kind}"
