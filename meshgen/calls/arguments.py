"""Conversion of a call's arguments to the arrays of the program's inputs."""

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
    """Return the arrays of a call's arguments by input name.

    Args:
        types: the types of the inputs, by name.
    Raises:
        ArgumentError: MG0601 with every argument that does not fit.
    """
    bound_call = signature.bind(args, kwargs)
    faults = [Diagnostic("MG0601", text, hint=f"the arguments are {signature}") for text in bound_call.faults]
    arrays: dict[str, Array] = {}
    _warn_of_gradients(
        [
            slot.name
            for slot, argument in bound_call.pairs
            if slot.name not in signature.weight_names and _has_gradient(argument)
        ]
    )
    for slot, argument in bound_call.pairs:
        if slot.number is not None:
            try:
                arrays[slot.name] = argument_array(argument, types.get(slot.name), slot.key, signature.narrows)
            except NoArrayError as error:
                faults.append(Diagnostic("MG0601", f"argument '{slot.name}' is {error.what}", hint=error.hint))
    if faults:
        raise ArgumentError(*faults)
    return arrays | {name: plain_array(argument) for name, argument in signature.weights.items() if name not in arrays}


def _has_gradient(argument: Any) -> bool:
    """Whether PyTorch would compute a gradient of an argument."""
    torch = sys.modules.get("torch")
    return torch is not None and getattr(argument, "requires_grad", False) is True and bool(torch.is_grad_enabled())


def _warn_of_gradients(names: Sequence[str]) -> None:
    if names:
        hint = "pass .detach(), or call it under torch.no_grad(); for gradients compile a step that computes them (mg.training_step)"
        text = f"arguments require grad, but results are arrays without a gradient: {', '.join(names)}; {hint}"
        warnings.warn(text, UserWarning, stacklevel=5)


def weight_arrays(signature: Signature, weights: Any) -> dict[str, Array]:
    """Return the arrays of `weights` by input name.

    Args:
        weights: arrays, or structures of arrays, by input name in any spelling.
    Raises:
        ArgumentError: MG0601, a name is not an input, or a value is not an array.
    """
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        message = f"weights must be a dict from names of inputs to arrays, got a {type(weights).__name__}"
        raise ArgumentError(Diagnostic("MG0601", message, hint=f"the arguments are {signature}"))
    messages: list[str] = []
    weights_by_input = signature.named(weights, messages)
    faults = [Diagnostic("MG0601", message) for message in messages]
    arrays: dict[str, Array] = {}
    for name, weight in weights_by_input.items():
        _add_array(arrays, f"weight '{name}'", str(name), weight, faults)
    if faults:
        raise ArgumentError(*faults)
    return arrays


def _add_array(arrays: dict[str, Array], description: str, name: str, value: Any, faults: list[Diagnostic]) -> None:
    try:
        arrays[name] = plain_array(value)
    except NoArrayError as error:
        faults.append(Diagnostic("MG0601", f"{description} is {error.what}", hint=error.hint))


def fitting(arrays: Mapping[str, Array], names: Sequence[str], types: Sequence[TensorType]) -> list[Array]:
    """Return the arrays in the order of the inputs. Raises ArgumentError with every array of another type."""
    messages = [misfit(name, kind, arrays[name]) for name, kind in zip(names, types, strict=True)]
    faults = [Diagnostic("MG0601", message) for message in messages if message]
    if faults:
        raise ArgumentError(*faults)
    return [arrays[name] for name in names]


def misfit(name: str, kind: TensorType, array: Array) -> str:
    """Return a message if the argument's type is not `kind`, else an empty string."""
    try:
        actual = TensorType(array.shape, dtype_name(array.dtype))
    except KeyError:
        return f"argument '{name}' has unsupported element type {array.dtype}"
    return "" if actual == kind else f"argument '{name}' has type {actual}, but the program takes {kind}"
