"""What a program is called with, as the arrays that its inputs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshgen.errors import ArgumentError, Diagnostic
from meshgen.frontend.tracer import flatten
from meshgen.ir.graph import Module

Array = np.ndarray[Any, Any]


def flat_arrays(module: Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Array]:
    """The leaves of the arguments in the order of the inputs. Raises ArgumentError with all misfits."""
    names = [value.name for value in module.graph.inputs]
    flat = [leaf for _, leaf in flatten(list(args), "")]
    known, left = _parameters(names), _parameters(names[len(flat) :])
    faults = [
        Diagnostic("MG0601", f"argument '{name}' is given twice" if name in known else f"there is no argument '{name}'")
        for name in kwargs
        if name not in left
    ]
    if faults:
        raise ArgumentError(*faults)
    flat += [leaf for name in left if name in kwargs for _, leaf in flatten(kwargs[name], name)]
    if len(flat) != len(names):
        raise ArgumentError(
            Diagnostic(
                "MG0601", f"{len(flat)} arrays were given, but the program takes {len(names)}: {', '.join(names)}"
            )
        )
    arrays = [np.asarray(leaf) for leaf in flat]
    faults = [
        Diagnostic("MG0601", f"argument '{name}' is {array.dtype}{list(array.shape)}, but the program takes {kind}")
        for name, array, kind in zip(names, arrays, module.in_types, strict=True)
        if array.shape != kind.sizes or array.dtype != kind.numpy_dtype
    ]
    if faults:
        raise ArgumentError(*faults)
    return arrays


def _parameters(names: Sequence[str]) -> list[str]:
    """Parameters that dotted input names belong to, in order."""
    return list(dict.fromkeys(name.partition(".")[0] for name in names))
