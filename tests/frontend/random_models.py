"""Helpers for random models of other packages: random draws, a table of kinds of steps, and test runs over many seeds.

A model is built in a few random steps. A kind of step is a function that appends one operation.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from meshgen.errors import MeshgenError


class CannotBuild(Exception):
    """Raised if no value fits a step, or if the other package fails to build the model."""


class Draws:
    """Random draws from a seed. It also records the kinds of steps that were taken."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.kinds: list[str] = []

    def integer(self, low: int, high: int) -> int:
        """Return a random integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, choices: Any) -> Any:
        return choices[self.integer(0, len(choices) - 1)]

    def numbers(self, *shape: int) -> np.ndarray[Any, Any]:
        """Return an array of random multiples of 1/4 from -2 to 2."""
        return np.asarray(self.rng.integers(-8, 9, shape) / 4, np.float32)


RandomBuilder = TypeVar("RandomBuilder", bound=Draws)


class Steps(dict[str, Callable[[RandomBuilder], None]], Generic[RandomBuilder]):
    """A table from names to kinds of steps."""

    def step(self, function: Callable[[RandomBuilder], None]) -> Callable[[RandomBuilder], None]:
        """Register a kind of step."""
        self[function.__name__] = function
        return function

    def take(self, builder: RandomBuilder, count: int) -> None:
        """Append about `count` random steps to the model of `builder`."""
        for _ in range(count * 6):
            name = builder.one_of(list(self))
            try:
                self[name](builder)
            except CannotBuild:
                continue
            builder.kinds.append(name)
            if len(builder.kinds) == count:
                break


def outcome(builder: Draws, fault_of: Callable[[Any], str]) -> tuple[str, str]:
    """Return a verdict on a model, and a message. The verdict is `right`, `wrong`, `refused` or `crashed` for meshgen,
    or `not built` if the other package cannot build the model.
    """
    try:
        fault = fault_of(builder)
    except CannotBuild as error:
        return "not built", str(error)
    except MeshgenError as error:
        return "refused", str(error)
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}"
    return ("wrong", fault) if fault else ("right", "")


def campaign(description: str | None, build: Callable[[int], Draws], fault_of: Callable[[Any], str]) -> int:
    """Test many random models, print all that fail, and return the exit status. It is a failure if meshgen rejects a
    model, because all models are valid.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.count):
        builder = build(seed)
        kinds.update(builder.kinds)
        verdict, text = outcome(builder, fault_of)
        verdicts[verdict] += 1
        if text:
            sys.stdout.write(f"seed {seed}: {verdict}: {text}\n  {' '.join(builder.kinds)}\n")
            sys.stdout.flush()
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    sys.stdout.write(f"{options.count} models of {len(kinds)} kinds of steps: {counts}\n")
    return int(any(verdicts[kind_of_failure] for kind_of_failure in ("wrong", "refused", "crashed")))
