"""Sessions of the training loops in plain JAX (`bench/training_loops`). Results equal JAX's, and the state has the same
layout after each step.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax")

from bench.training_loops.plain import LOOPS
from bench.training_loops.run import TOLERANCE, annotations, differences

STEPS = 5


@pytest.mark.parametrize("annotation_kind", ["none", "all"])
@pytest.mark.parametrize("name", LOOPS)
def test_session_of_training_loop_matches_jax(name: str, annotation_kind: str, tmp_path: Path) -> None:
    loop = LOOPS[name](8)
    error, faults = differences(loop, 8, annotations(loop)[annotation_kind], tmp_path / "m.mgx", STEPS)
    assert error <= TOLERANCE and not faults
