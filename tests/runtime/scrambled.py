"""Corrupt a document, such as a manifest, by replacing one value in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any


def scramble(value: Any, rng: random.Random, junk: Sequence[Any]) -> None:
    """Replace one random value nested in `value` with a random entry of `junk`."""
    while True:
        key = rng.choice(list(value) if isinstance(value, dict) else list(range(len(value))))
        inner = value[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.1:
            value[key] = rng.choice(junk)
            return
        value = inner
