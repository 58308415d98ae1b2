"""Compiles that are killed leave nothing that is half done. `python -m tests.kill_compile` does it as often as one likes."""

from __future__ import annotations

from tests.kill_compile import kill_compiles


def test_a_killed_compile_leaves_nothing_half_done() -> None:
    assert sum(kill_compiles(2, seed=3).values()) == 2
