"""Settings shared by all tests: how JAX compiles the reference results, and how often Python collects garbage."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

# Most JAX programs run once, and optimizing a program takes longer than running it once.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# New objects between two collections of the youngest generation. At Python's default, 700, these collections take a
# tenth of the time of all tests. Collections of the oldest generation take another tenth: they walk through millions of
# objects of shared plans and free next to nothing. With these thresholds they run about once in a quarter of an hour.
gc.set_threshold(10_000, 10, 100)


@pytest.fixture
def few_objects() -> Iterator[None]:
    """Limit `gc.collect()` to objects that the test creates. Otherwise each call would take seconds, because it walks
    through the plans that tests share.
    """
    gc.freeze()
    yield
    gc.unfreeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Collect garbage once, then exempt all objects from collection. Otherwise pytest would collect five more times at
    the end, and find nothing new. A worker of xdist does not collect, because nobody sees its warnings.
    """
    if not hasattr(session.config, "workerinput"):
        gc.collect()
    gc.freeze()
