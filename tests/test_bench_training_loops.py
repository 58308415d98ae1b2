"""Sessions of training loops in plain JAX (`bench/training_loops`): equal to the loop of JAX, with one layout of the state."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax")

from bench.training_loops.plain import LOOPS
from bench.training_loops.run import TOLERANCE, annotations, differences

STEPS = 5


@pytest.mark.parametrize("kind", ["none", "all"])
@pytest.mark.parametrize("name", LOOPS)
def test_session_of_a_loop_is_equal_to_jax(name: str, kind: str, tmp_path: Path) -> None:
    loop = LOOPS[name](8)
    error, faults = differences(loop, 8, annotations(loop)[kind], tmp_path / "m.mgx", STEPS)
    assert error <= TOLERANCE and not faults
