"""Python's cycle collector, at a pace that suits a compiler.

A compiler makes hundreds of thousands of objects that all stay: at Python's own pace the collector walks them again
and again and finds nothing, for a fifth of the compile time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

NEW_OBJECTS = 1_000_000  # between two collections of the youngest, some 100 MB; Python's own pace is 700 to 2000
_lock = threading.Lock()
_entered: list[tuple[int, int, int]] = []  # the caller's pace, once for everyone who is within


@contextmanager
def rarely_collecting() -> Generator[None]:
    """Within it, in any thread, cycles are looked for once in `NEW_OBJECTS` new objects; then at the caller's pace again.

    What was made within counts as old then: the caller's next collection of the youngest does not walk it all.
    """
    with _lock:
        _entered.append(_entered[0] if _entered else gc.get_threshold())
        if 0 < _entered[0][0] < NEW_OBJECTS:
            gc.set_threshold(NEW_OBJECTS, *_entered[0][1:])
    try:
        yield
    finally:
        with _lock:
            pace = _entered.pop()
            if not _entered:
                # The caller's collector is due. What the caller has frozen would be thawed too, but to count that takes a walk through it.
                if gc.get_count()[0] > pace[0] and not gc.get_freeze_count():
                    gc.freeze()
                    gc.unfreeze()
                gc.set_threshold(*pace)
