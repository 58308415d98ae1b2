"""The number of random trials: `MESHGEN_TRIALS=20 make test` runs twenty times as many as `make test`."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("MESHGEN_TRIALS", "1"))


def trials(count: int) -> range:
    """Return the indices (or seeds) of the trials: `count` times the value of `MESHGEN_TRIALS`."""
    return range(count * TIMES)
