"""Settings shared by all tests: how JAX compiles the reference results, and how often Python collects garbage."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

# Most JAX programs run once: optimizing them takes longer than running them.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# New objects between two collections of the youngest generation. At Python's default, 700, collections take a tenth of
# the time of all tests. Collections of the oldest generation take another tenth: they walk through millions of objects
# of shared plans and free next to nothing. They run about once in a quarter of an hour here.
gc.set_threshold(10_000, 10, 100)


@pytest.fixture
def few_objects() -> Iterator[None]:
    """Limit `gc.collect()` to objects that the test creates. Walking the shared plans would take seconds each time."""
    gc.freeze()
    yield
    gc.unfreeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Collect garbage once, then freeze all objects: pytest ends with five more collections, which find nothing new.

    A worker of xdist does not collect, because nobody sees its warnings.
    """
    if not hasattr(session.config, "workerinput"):
        gc.collect()
    gc.freeze()
