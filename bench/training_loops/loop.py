"""A training loop to benchmark: its state, its step in the framework, and the program that meshgen compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Batch = tuple[Array, Array]


@dataclass(frozen=True)
class Loop:
    """A training loop of one size.

    Attributes:
        program: the step for `mg.compile`, a function of the state and a batch.
        state: the donated arguments in order, by their names in the program.
        step: the step as the framework executes it, from state and batch to the next state and the loss. Both states
        are in the order of `state`.
        donate: the `donate` argument of `mg.compile`, or None if the program declares donation.
        batch: the names of the batch arguments.
    """

    program: Any
    state: Mapping[str, Any]
    step: Callable[..., tuple[tuple[Any, ...], Any]]
    donate: Any = None
    batch: tuple[str, str] = ("x", "y")


def batches(size: int, step: int, rows: int = 8) -> Batch:
    """Return the inputs and targets of the batch for step number `step`."""
    rng = np.random.default_rng([size, step])
    x = rng.standard_normal((rows, size), np.float32)
    return x, np.tanh(x[:, :2] * 2 - x[:, 2:4])
