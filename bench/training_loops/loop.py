"""A training loop: what its framework is given, and how a step of it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Batch = tuple[Array, Array]


@dataclass(frozen=True)
class Loop:
    """A loop of one size.

    Attributes:
        program: what `mg.compile` takes, a step on the state and a batch.
        state: the donated arguments by the names that they have in the program, in order.
        step: the framework's own step; takes the state in order and a batch, and returns the next state in order, and the loss.
        donate: as `mg.compile` takes it; None where the program says it.
        batch: the arguments of the batch by name.
    """

    program: Any
    state: Mapping[str, Any]
    step: Callable[..., tuple[tuple[Any, ...], Any]]
    donate: Any = None
    batch: tuple[str, str] = ("x", "y")


def batches(size: int, number: int, rows: int = 8) -> Batch:
    """The rows and targets of a step."""
    rng = np.random.default_rng([size, number])
    x = rng.standard_normal((rows, size), np.float32)
    return x, np.tanh(x[:, :2] * 2 - x[:, 2:4])
