"""What all tests share: the pace at which Python looks for cycles, and how JAX compiles what results are compared with."""

from __future__ import annotations

import gc
import os

# Most programs of JAX run once: to optimise them takes longer than to run them.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
NEW_OBJECTS = 10_000  # between two collections of the youngest; Python's own pace is 700


def pytest_collection_finish() -> None:
    """Test items and imported modules stay to the end: to walk them again and again takes a tenth of the time of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 10, 10)
