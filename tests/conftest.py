"""What all tests share: how JAX compiles what results are compared with, and when Python looks for cycles."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

# Most programs of JAX run once: to optimise them takes longer than to run them.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# New objects between two collections of the youngest: at Python's own pace, 700, a tenth of the time of all tests goes into collections. Another
# tenth goes into those of the oldest, which walk through millions of objects of plans that tests share and find next to nothing: one in a
# quarter of an hour.
gc.set_threshold(10_000, 10, 100)


@pytest.fixture
def few_objects() -> Iterator[None]:
    """`gc.collect()` looks only at what the test makes: to walk the plans that tests share takes seconds each time."""
    gc.freeze()
    yield
    gc.unfreeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """pytest ends with five collections, to see what was not closed: one finds it, and the others have nothing to walk.

    What a worker of xdist finds then reaches nobody, so it spends no time on it.
    """
    if not hasattr(session.config, "workerinput"):
        gc.collect()
    gc.freeze()
