"""How often random tests draw: `MESHGEN_TRIALS=20 make test` draws twenty times as often as `make test`."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("MESHGEN_TRIALS", "1"))


def trials(count: int) -> range:
    """Numbers of draws, or seeds: the first `count`, or as many more as are asked for."""
    return range(count * TIMES)
