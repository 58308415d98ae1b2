"""What all tests share: how JAX compiles what results are compared with, and where Python looks for cycles."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

# Most programs of JAX run once: to optimise them takes longer than to run them.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")


@pytest.fixture
def few_objects() -> Iterator[None]:
    """`gc.collect()` looks only at what the test makes: to walk the plans that tests share takes seconds each time."""
    gc.freeze()
    yield
    gc.unfreeze()
