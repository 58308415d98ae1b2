"""Tests of loops that run as one `recurrence` kernel: supported loops, results, and the remaining parts of loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bodies import candidate_tiles, with_architectures
from check_builds import built

from meshgen import api
from meshgen.codegen.roofline.kernel_time import device_of, kernel_seconds
from meshgen.codegen.triton_source import kernel_sources
from meshgen.compiled.executable import Executable
from meshgen.ir.graph import Graph, Node
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.runtime.random_arrays import random_operands
from meshgen.testing.oracle import check
from tests.emulator.programs import cases_of

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax
random_bodies = pytest.importorskip("tests.codegen.random_recurrences")


def linear(a: Any, b: Any) -> Any:
    return lax.scan(lambda h, x: (x[0] * h + x[1], h), jnp.ones(a.shape[1:], a.dtype), (a, b))


def from_the_end(a: Any, b: Any) -> Any:
    return lax.scan(lambda h, x: (x[0] * h + x[1], (h * x[1]).sum(-1)), b[0], (a, b), reverse=True)


def saturating(a: Any, b: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(x[0] * h + x[1]), h), a[0], (a, b))


def selective(x: Any, step: Any, decay: Any, into: Any, out: Any) -> Any:
    """Compute a selective state space with states[batch, channel, state], scanned over the second dim of its operands."""

    def trip(h: Any, row: Any) -> Any:
        x, step, into, out = row
        h = jnp.exp(step[..., None] * decay) * h + (step * x)[..., None] * into[:, None, :]
        return h, jnp.einsum("bcs,bs->bc", h, out)

    rows = [jnp.swapaxes(operand, 0, 1) for operand in (x, step, into, out)]
    return jnp.swapaxes(lax.scan(trip, jnp.zeros((x.shape[0], *decay.shape)), rows)[1], 0, 1)


def gradients(*args: Any) -> Any:
    return jax.grad(lambda *args: jnp.square(selective(*args)).sum(), argnums=tuple(range(len(args))))(*args)


def counters(x: Any) -> Any:
    """Scan counts, running maxima, and an iteration number that is used as data."""

    def trip(state: Any, row: Any) -> Any:
        count, greatest, number = state
        return (count + (row > 0), jnp.maximum(greatest, row), number + 1), number.astype(row.dtype) * row

    return lax.scan(trip, (jnp.zeros(x.shape[1:], jnp.int32), x[0], 0), x)


def swapped_states(x: Any) -> Any:
    return lax.scan(lambda s, row: ((s[1], s[0] + row), s[0] > row), (x[0], x[1]), x)


def normalized(x: Any, w: Any) -> Any:
    def trip(h: Any, row: Any) -> Any:
        h = h + row
        h = h / jnp.sqrt(jnp.square(h).mean(-1, keepdims=True) + 1e-5) * w
        return h, h.max(-1)

    return lax.scan(trip, x[0], x)


def columns(x: Any) -> Any:
    return lax.scan(lambda h, row: (0.9 * h + 0.1 * row, h), jnp.zeros(x.shape[0]), x.T)[1].T


CHANNELS = ((2, 10, 12), (2, 10, 12), (12, 4), (2, 10, 4), (2, 10, 4))
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], str]] = {
    "linear": (linear, ((12, 5, 7),) * 2, "f4"),
    "from_the_end": (from_the_end, ((12, 5, 7),) * 2, "f4"),
    "saturating": (saturating, ((12, 5, 7),) * 2, "bfloat16"),
    "selective": (selective, CHANNELS, "f4"),
    "gradients": (gradients, CHANNELS, "f4"),
    "counted": (counters, ((11, 13),), "f4"),
    "handed_on": (swapped_states, ((11, 13),), "f4"),
    "normalized": (normalized, ((7, 9, 20), (20,)), "f4"),
    "columns": (columns, ((33, 40),), "f4"),
}
NOT_RECURRENCES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], str]] = {
    "product": (lambda x, w: lax.scan(lambda h, row: (jnp.tanh(h @ w + row), h), x[0], x), ((7, 4, 16), (16, 16)), "f4"),
    "neighbors": (lambda x: lax.scan(lambda h, row: (jnp.roll(h, 1, -1) + row, h), x[0], x), ((7, 4, 16),), "f4"),
    "sum_of_all": (lambda x: lax.scan(lambda h, row: (row + h.mean(), h), x[0], x), ((7, 2048),), "f4"),
}  # fmt: skip


def text(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], dtype: str) -> str:
    return jax.jit(function).lower(*(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)).as_text()


def templates(executable: Executable) -> list[str]:
    return [source.template for source in executable.sources.values()]


@pytest.mark.parametrize("name, arch", with_architectures(PROGRAMS))
def test_elementwise_loop_becomes_one_recurrence_kernel(name: str, arch: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.mlir"
    path.write_text(text(*PROGRAMS[name]))
    planned = api.plan(str(path), target="cuda:sm_90")
    assert "recurrence" in templates(planned)
    assert not any(item.regions for item in planned.plan.items), "no loop remains"
    entered = next(iter(planned.stages.values()))
    assert check(entered, pipeline=lambda _: planned.stages["fuse"]).ok
    for case in cases_of(path, [arch]):
        assert case.built.spill_bytes == 0
        assert case.excess(case.run()) <= 1


@pytest.mark.parametrize("name", NOT_RECURRENCES)
def test_loops_that_mix_elements_are_no_recurrence(name: str) -> None:
    planned = api.plan(text(*NOT_RECURRENCES[name]), target="cuda:sm_90")
    assert "recurrence" not in templates(planned)
    assert check(next(iter(planned.stages.values())), pipeline=lambda _: planned.stages["fuse"]).ok


def recurrence(planned: Executable) -> tuple[Graph, Node]:
    """Return the kernel body that contains the recurrence, and the recurrence."""
    return next(
        (body, node) for body in planned.plan.kernels.values() for node in body.nodes if node.op == "recurrence"
    )


def test_recurrence_prefetches_rows() -> None:
    planned = api.plan(text(*PROGRAMS["linear"]), target="cuda:sm_90")
    (source,) = (candidate for candidate in planned.sources.values() if candidate.template == "recurrence")
    assert "num_stages=4" in source.text


def test_recurrence_hoists_loop_invariant_values() -> None:
    def decaying(x: Any, rate: Any) -> Any:
        return lax.scan(lambda h, row: (jnp.exp(rate) * h + row, h), x[0], x)

    planned = api.plan(text(decaying, ((300, 64), (64,)), "f4"), target="cuda:sm_90")
    (source,) = (candidate for candidate in planned.sources.values() if candidate.template == "recurrence")
    before, loop = source.text.split("for k in")
    assert "exp(" in before.split("def recurrence")[1] and "exp(" not in loop


def test_recurrence_error_bound_is_tight() -> None:
    """Check the error bound of a recurrence of 12 iterations: it is finite, and below a thousandth of the result."""
    body, node = recurrence(api.plan(text(*PROGRAMS["linear"]), target="cuda:sm_90"))
    operands = random_operands(body, [1])
    results, bounds = evaluate(body, operands), error_bound(body, operands)
    assert node.attrs.trips == 12
    for value, bound in zip(results, bounds, strict=True):
        assert np.isfinite(bound).all() and (bound < 1e-3 * np.maximum(np.abs(value), 1e-2)).all()


def test_recurrence_time_is_linear_in_trip_count() -> None:
    seconds = [
        kernel_seconds(
            recurrence(api.plan(text(linear, ((trips, 64),) * 2, "f4"), target="cuda:sm_90"))[0], "cuda:sm_90"
        )
        for trips in (300, 600)
    ]
    assert seconds[1] - seconds[0] == pytest.approx(300 * 5.5e-7 / 3)


def test_recurrence_result_shared_by_lanes_is_stored_once(tmp_path: Path) -> None:
    """Check that one program stores a shared result. Several stores would be a race, which the emulated GPU rejects."""
    path = tmp_path / "counted.mlir"
    path.write_text(text(counters, ((5, 70),), "f4"))
    (case,) = (kernel_case for kernel_case in cases_of(path, ["sm_90"]) if kernel_case.source.template == "recurrence")
    assert case.source.grid[0] > 1 and case.excess(case.run()) == 0


def test_random_recurrences_match_their_loops() -> None:
    """Check that at least half of the random loops become recurrence kernels, and that all compute the same results.

    Some of the programs have further kernels.
    """
    programs = [random_bodies.planned(seed) for seed in range(24)]
    assert sum("recurrence" in templates(executable) for executable in programs) >= 12
    assert sum(len(executable.plan.items) > 1 for executable in programs) >= 6
    assert [text for executable in programs if (text := random_bodies.fault(executable))] == []


def recorded(x: Any) -> Any:
    """Sum over all lanes in each iteration. A recurrence kernel would have to store the carried value of each
    iteration.
    """
    return lax.scan(lambda h, _: (h * 0.5 + 1, jnp.square(h).sum()), x, None, length=300)


def test_recurrence_does_not_stack_carried_values() -> None:
    """Check that the carried values of the 300 iterations are not stored, which would take 300 times as many bytes."""
    planned = api.plan(text(recorded, ((256, 64),), "f4"), target="cuda:sm_90")
    assert "recurrence" not in templates(planned)
    assert planned.memory.peak_bytes < 10 * 256 * 64 * 4


def test_loop_with_huge_trip_count_is_not_unrolled() -> None:
    planned = api.plan(
        text(lambda x: lax.fori_loop(0, 10**9, lambda i, h: h * 0.5 + 1, x), ((64,),), "f4"), target="cuda:sm_90"
    )
    assert "recurrence" not in templates(planned)


def test_long_recurrence_bodies_do_not_exhaust_the_stack() -> None:
    """Check a recurrence whose loop body also contains two other chains.

    One chain is longer than Python's stack. In the other, each op uses its predecessor twice.
    """

    def trip(h: Any, row: Any) -> Any:
        doubled = jnp.asarray(1.0)
        for _ in range(40):
            doubled = doubled * 0.5 + doubled * 0.5
        beside = row
        for _ in range(1200):
            beside = jnp.sin(beside)
        return h * 0.5 + row, (beside.sum(0), (h * doubled).sum(0))

    planned = api.plan(text(lambda x: lax.scan(trip, x[0], x), ((6, 4, 8),), "f4"), target="cuda:sm_90")
    assert "recurrence" in templates(planned)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_recurrence_with_many_operands_fits_in_shared_memory(arch: str) -> None:
    """Check 24 operands. Prefetching four iterations exceeds shared memory in blocks of 512 lanes, but fits for smaller
    blocks.
    """

    def sums(*rows: Any) -> Any:
        return lax.scan(lambda h, row: (sum(row, h * 0.5), h), jnp.zeros(rows[0].shape[1:]), rows)

    planned = api.plan(text(sums, ((8, 1 << 20),) * 24, "f4"), target=f"cuda:{arch}")
    (name, body) = next(iter(planned.plan.kernels.items()))
    first = next(kernel_sources(name, body, planned.mesh, f"cuda:{arch}"))
    assert first.template == "recurrence"
    (kernel,) = built(planned.mesh, {name: body}, arch).values()
    assert kernel.spill_bytes == 0 and kernel.shared <= device_of(arch).shared_bytes


def written(first: int, step: int, trips: int) -> Any:
    """Return a loop that writes rows of a stack of seven rows. Each row is the sum of the carried value over its lanes."""

    def program(x: Any, sums: Any) -> Any:
        def trip(i: Any, state: Any) -> Any:
            h, stack = state
            h = h * 0.5 + x[i]
            return h, lax.dynamic_update_slice(stack, h.sum(1)[None], (first + step * i, 0))

        return lax.fori_loop(0, trips, trip, (x[0], sums))

    return program


@pytest.mark.parametrize(
    "first, step, trips", [(0, 1, 7), (0, 1, 1), (3, 1, 1), (2, 1, 4), (5, -1, 4), (6, -1, 7), (0, 2, 4), (6, -3, 3)]
)
def test_recurrence_writes_consecutive_rows_of_a_stack(first: int, step: int, trips: int) -> None:
    """Check a full stack, consecutive rows in either order, and strided rows. Other rows of the stack are unchanged."""
    planned = api.plan(text(written(first, step, trips), ((7, 6, 8), (7, 6)), "f4"), target="cuda:sm_90")
    assert ("recurrence" in templates(planned)) == (abs(step) == 1)
    assert check(next(iter(planned.stages.values())), pipeline=lambda _: planned.stages["fuse"]).ok


def test_recurrence_candidates_have_distinct_tiles() -> None:
    body, _ = recurrence(api.plan(text(linear, ((12, 1 << 20),) * 2, "f4"), target="cuda:sm_90"))
    assert len(candidate_tiles(body)) > 1
