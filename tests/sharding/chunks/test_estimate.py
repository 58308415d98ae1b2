"""The estimated gain of a chain in chunks: the communication time that it hides minus all overheads of chunking."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.ir.graph import Module, Node
from meshgen.ops.classes import DOTS, LOOPS
from meshgen.sharding.chunks import estimate
from meshgen.sharding.chunks.chain import CHUNKED
from tests.sharding.chunks.chunk_programs import block, chain, collectives, local

# Distinct powers of two: sums of a few of them are exact and reveal their terms.
LAUNCH, DOT, MESSAGE, BYTE = 2.0**-40, 2.0**-30, 2.0**-20, 2.0**-10


class _Messages:
    def collective(self, called: object) -> float:
        return MESSAGE


@pytest.fixture(scope="module")
def module() -> Module:
    return local(block(8, 12, 16, layers=2))


@pytest.fixture(autouse=True)
def unit_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    device = replace(device_of("cpu"), launch_seconds=LAUNCH)
    monkeypatch.setattr(estimate, "device_of", lambda target: device)
    monkeypatch.setattr(estimate, "default_costs", lambda target: _Messages())
    monkeypatch.setattr(estimate, "dot_seconds", lambda dot, device: DOT)
    monkeypatch.setattr(estimate, "memory_seconds", lambda nbytes, device: BYTE * nbytes)


def gain(module: Module, dim: int, count: int, exposed: dict[Node, float]) -> float:
    candidate = chain(module, dim, count)
    return estimate.Estimates(module.graph, module.mesh, "cpu", exposed).gain(candidate)


@pytest.mark.parametrize(("dim", "count"), [(0, 2), (0, 8), (1, 2), (1, 4)])
def test_gain_without_hiding_is_minus_chunk_overhead(module: Module, dim: int, count: int) -> None:
    """Check that chunking has only costs if no time is exposed.

    Chunks of rows are joined in place. Chunks of columns copy the residual, which a dot or the caller reads completely.
    """
    ops = [node.op for node in chain(module, dim, count).loops]
    launches = sum(op in LOOPS for op in ops) * LAUNCH
    longer = sum(op in DOTS for op in ops) * DOT + sum(op in CHUNKED for op in ops) * MESSAGE
    copied = 2 * 2 * module.graph.outputs[0].type.nbytes * BYTE if dim == 1 else 0.0
    assert launches > 0 and longer > 2 * MESSAGE - DOT
    assert gain(module, dim, count, {}) == -((count - 1) * (launches + longer) + copied)


def test_gain_grows_with_exposed_seconds_up_to_dot_time(module: Module) -> None:
    first, last = collectives(module)
    steps = [gain(module, 0, 2, {first: DOT * part / 4}) for part in range(40)]
    assert all(left <= right for left, right in itertools.pairwise(steps))
    assert steps[1] - steps[0] == DOT / 8  # the dot hides one of the two chunks of the collective
    dots = sum(node.op in DOTS for node in chain(module, 0, 2).loops)
    assert steps[-1] - steps[0] == dots * DOT
    both = gain(module, 0, 2, {first: DOT / 4, last: DOT / 4})
    assert both - steps[0] == DOT / 2 - DOT / 8  # Of the longest collective, one chunk stays exposed.
