"""A killed compile leaves no partial output. `python -m tests.kill_compile` repeats the test any number of times."""

from __future__ import annotations

from tests.kill_compile import kill_compiles


def test_killed_compile_leaves_no_partial_output() -> None:
    assert sum(kill_compiles(2, seed=3).values()) == 2
