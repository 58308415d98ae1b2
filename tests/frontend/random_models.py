"""What random models of other packages share: draws, a table of kinds of steps, models of a few of them, and campaigns over seeds."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from meshgen.errors import MeshgenError


class CannotMake(Exception):
    """No value of the model fits a step, or the package itself cannot make the model."""


class Draws:
    """Numbers that a seed determines, and the kinds of steps that were taken."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.kinds: list[str] = []

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, choices: Any) -> Any:
        return choices[self.integer(0, len(choices) - 1)]

    def numbers(self, *shape: int) -> np.ndarray[Any, Any]:
        """Multiples of 1/4 from -2 to 2."""
        return np.asarray(self.rng.integers(-8, 9, shape) / 4, np.float32)


Maker = TypeVar("Maker", bound=Draws)


class Steps(dict[str, Callable[[Maker], None]], Generic[Maker]):
    """Kinds of steps by name."""

    def step(self, function: Callable[[Maker], None]) -> Callable[[Maker], None]:
        """Enter a kind of step."""
        self[function.__name__] = function
        return function

    def take(self, maker: Maker, count: int) -> None:
        """Take about so many random steps."""
        for _ in range(count * 6):
            name = maker.one_of(list(self))
            try:
                self[name](maker)
            except CannotMake:
                continue
            maker.kinds.append(name)
            if len(maker.kinds) == count:
                break


def outcome(maker: Draws, fault_of: Callable[[Any], str]) -> tuple[str, str]:
    """How a model went, `right`, `wrong`, `refused`, `crashed`, or `not made` where the package cannot make it, and what was said."""
    try:
        fault = fault_of(maker)
    except CannotMake as error:
        return "not made", str(error)
    except MeshgenError as error:
        return "refused", str(error)
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}"
    return ("wrong", fault) if fault else ("right", "")


def campaign(description: str | None, made: Callable[[int], Draws], fault_of: Callable[[Any], str]) -> int:
    """Run many models, print all that are not right, and count them. Returns the exit status: refusals of valid models are faults too."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.count):
        maker = made(seed)
        kinds.update(maker.kinds)
        verdict, text = outcome(maker, fault_of)
        verdicts[verdict] += 1
        if text:
            sys.stdout.write(f"seed {seed}: {verdict}: {text}\n  {' '.join(maker.kinds)}\n")
            sys.stdout.flush()
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    sys.stdout.write(f"{options.count} models of {len(kinds)} kinds of steps: {counts}\n")
    return int(any(verdicts[each] for each in ("wrong", "refused", "crashed")))
