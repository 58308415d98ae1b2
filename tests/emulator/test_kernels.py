"""Tests of generated kernels as PTX: results match their bodies without faults, and most mutants are detected."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import pytest

from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph
from meshgen.ops.precision import EXACT
from tests.codegen.bodies import ONE, Body
from tests.emulator.mutate_ptx import campaign, mutant, sites, verdict
from tests.emulator.programs import Case, case_of

pytest.importorskip("triton")


def softmax() -> Graph:
    body = Body("bf16[64,700]", name="softmax")
    (x,) = body.inputs
    shifted = body.op("exponential", body.op("subtract", x, body.wide(body.reduce("maximum", x, 1), x, (0,))))
    return body.done(body.op("divide", shifted, body.wide(body.reduce("add", shifted, 1), x, (0,))))


def product() -> Graph:
    body = Body("bf16[64,256]", "bf16[256,128]", "bf16[64,128]", name="product")
    x, w, bias = body.inputs
    return body.done(body.op("add", body.op("tanh", body.dot(x, w, ((1,), (0,)))), bias))


def computed_product() -> Graph:
    """Build a GEMM whose first operand is negated, so that threads load it (`product` uses asynchronous copies)."""
    body = Body("bf16[32,256]", "bf16[256,32]", "bf16[32,32]", name="computed_product")
    x, w, bias = body.inputs
    return body.done(body.op("add", body.op("tanh", body.dot(body.op("negate", x), w, ((1,), (0,)))), bias))


def squares() -> Graph:
    """Build a sum of squares per row, whose rows span several warps."""
    body = Body("f32[16,1500]", name="squares")
    (x,) = body.inputs
    return body.done(body.reduce("add", body.op("multiply", x, x), 1))


def plain_product() -> Graph:
    body = Body("bf16[64,256]", "bf16[256,64]", name="plain_product")
    return body.done(body.dot(*body.inputs, ((1,), (0,))))


def exact_product() -> Graph:
    body = Body("f32[64,96]", "f32[96,48]", name="exact_product")
    return body.done(body.dot(*body.inputs, ((1,), (0,)), precision=EXACT))


def transposed_sum() -> Graph:
    body = Body("f32[70,50]", "f32[50,70]", name="transposed_sum")
    x, y = body.inputs
    return body.done(body.op("add", x, body.op("transpose", y, perm=(1, 0))))


@functools.cache
def case(make: Callable[[], Graph], arch: str) -> Case:
    body = make()
    return case_of(kernel_source(body.name, body, ONE, f"cuda:{arch}"), body, ONE, arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("make", [softmax, product, exact_product, transposed_sum])
def test_kernel_matches_body(make: Callable[[], Graph], arch: str) -> None:
    kernel_case = case(make, arch)
    assert kernel_case.excess(kernel_case.run()) <= 1


def test_mutants_are_detected() -> None:
    """This runs a fixed selection of each kind; `python -m tests.emulator.mutate_ptx` runs many more."""
    cases = [case(make, arch) for make in (squares, exact_product, plain_product) for arch in ("sm_80", "sm_90")]
    verdicts = [(kind, outcome) for _, kind, _, outcome in campaign(cases, 40, seed=3)]
    effective_mutants = [(kind, outcome) for kind, outcome in verdicts if outcome != "equivalent"]
    undetected = [kind for kind, outcome in effective_mutants if outcome in ("same bits", "silent")]
    assert len(verdicts) == 40 and len({kind for kind, _ in verdicts}) >= 10
    assert len(undetected) <= 0.1 * len(effective_mutants) and len(effective_mutants) >= 30, undetected
    assert not {"barrier dropped", "wait dropped", "commit dropped", "fence dropped"} & set(undetected)


@pytest.mark.parametrize(
    "make, arch, needed", [(computed_product, "sm_80", 5), (computed_product, "sm_90", 7), (product, "sm_90", 4)]
)
def test_dropped_barrier_is_a_race(make: Callable[[], Graph], arch: str, needed: int) -> None:
    """Dropping any of at least `needed` barriers is a race. The others are proven to order nothing by themselves.

    Those precede copies to untouched buffers, or each thread only accesses its own element before and after them.
    """
    kernel_case = case(make, arch)
    barriers = [number for kind, number in sites(kernel_case.ptx) if kind == "barrier dropped"]
    verdicts = [
        verdict(kernel_case, mutant(kernel_case.ptx, "barrier dropped", number, random.Random(0)))
        for number in barriers
    ]
    assert verdicts.count("fault: race") >= needed and set(verdicts) <= {"equivalent", "fault: race"}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_dropped_wait_or_fence_is_detected(arch: str) -> None:
    kernel_case = case(plain_product, arch)
    wait_sites = [
        (kind, number) for kind, number in sites(kernel_case.ptx) if kind in ("wait dropped", "fence dropped")
    ]
    verdicts = {
        kind: verdict(kernel_case, mutant(kernel_case.ptx, kind, number, random.Random(0)))
        for kind, number in wait_sites
    }
    assert verdicts["wait dropped"] == "fault: async copy"
    assert verdicts.get("fence dropped", "fault: race") == "fault: race"
