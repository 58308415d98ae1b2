"""Compare random sessions with repeated calls that pass the state explicitly.

    python -m tests.runtime.session_fuzz --count 10000 --seed 0 --device reference

Each trial compiles a step on one or two donated trees of arrays. The step returns the new trees. It may also return the
argument, sums, views of the old state, and other trees of equal structure, nested and ordered at random. The session
and the calls must give the same bits, from several threads too. The session must reject (MG0112) programs whose next
values are ambiguous by the rules of `frontend/pair_donations.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from meshgen.calls.trees import flatten, unflatten
from meshgen.errors import UsageError
from tests.runtime.session_trials import Trial, random_trial

STEPS = 3  # number of steps of a session


def arrays(rng: np.random.Generator, tree: Any) -> Any:
    leaves: list[Any] = []
    for _, leaf in flatten(tree):
        dtype, _, sizes = leaf.partition("[")
        shape = tuple(int(size) for size in sizes[:-1].split(",") if size)
        leaves.append(np.asarray(rng.integers(-4, 5, shape), np.float32 if dtype == "f32" else np.int32))
    return unflatten(tree, iter(leaves))


def compiled(trial: Trial) -> Any:
    args = [*trial.trees, trial.x]
    step = (lambda p, q, x: trial.step(p, q, x)) if len(trial.trees) == 2 else (lambda p, x: trial.step(p, x))
    if trial.is_jax:
        import jax

        jitted = jax.jit(step, donate_argnums=tuple(range(len(trial.trees))), keep_unused=True)
        return mg.compile(
            jitted,
            {"d": 2},
            args=args,
            in_specs=trial.specs,
            target="cpu",
            donate=trial.donate if isinstance(trial.donate, dict) else None,
        )
    return mg.compile(step, {"d": 2}, args=args, in_specs=trial.specs, donate=trial.donate, target="cpu")


def run_trial(seed: int, path: Path, device: Any = "reference") -> str:
    """Run one trial and return its category: `refused`, `threads`, `jax` or `equal`.

    Raises:
        AssertionError: the session gives other results than the calls.
    """
    rng = np.random.default_rng(seed)
    trial = random_trial(rng)
    executable = compiled(trial)
    executable.save(path)
    module = mg.load(path)
    try:
        session = module.session(device)
    except UsageError as error:
        assert "MG0112" in str(error) and trial.is_refused, f"{trial}\n{error}"
        return "refused"
    assert not trial.is_refused, f"must be refused: {trial}"
    states = [arrays(rng, tree) for tree in trial.trees]
    with session:
        for name, state in zip(trial.names, states, strict=True):
            session[name] = state
        for _ in range(STEPS):
            x = arrays(rng, trial.x)
            session_results = session(x)
            results = executable(*states, x)
            states = _compare(trial, session_results, results)
            for name, state in zip(trial.names, states, strict=True):
                _equal(session[name], state, (trial, name))
        if rng.random() < 0.1:
            _run_threads(trial, session, rng)
            return "threads"
    return "jax" if trial.is_jax else "equal"


def _compare(trial: Trial, session_results: Any, results: Any) -> list[Any]:
    """Check the session's results against the `results` of the call, and return the next state."""
    if trial.keys:
        parts = [results[key] for key in trial.keys]
    else:
        parts = [results[0], *results[1]] if trial.is_nested else list(results)
    new = {role: part for role, part in zip(trial.order, parts, strict=True) if isinstance(role, int)}
    pairs = zip(trial.keys or trial.order, trial.order, parts, strict=True)
    remaining = {key: part for key, role, part in pairs if not isinstance(role, int)}
    # JAX sorts the keys of a dict.
    ordered = [remaining[key] for key in (sorted(remaining) if trial.keys else remaining)]
    leaves = [leaf for _, leaf in flatten(session_results)] if session_results is not None else []
    expected_leaves = [leaf for part in ordered for _, leaf in flatten(part)]
    assert len(leaves) == len(expected_leaves), (trial, session_results)
    for leaf, expected in zip(leaves, expected_leaves, strict=True):
        _equal(leaf, expected, trial)
    return [new[number] for number in range(len(trial.trees))]


def _equal(tree: Any, expected_tree: Any, context: Any) -> None:
    for (path, leaf), (other, expected) in zip(flatten(tree), flatten(expected_tree), strict=True):
        assert path == other, (context, path, other)
        np.testing.assert_array_equal(np.asarray(leaf), np.asarray(expected), err_msg=str(context))


def _run_threads(trial: Trial, session: Any, rng: np.random.Generator) -> None:
    """Check that each of several concurrent calls gets the sum or the argument `x` of its own call."""
    if "x" not in trial.order and "sum" not in trial.order:
        return

    def call(number: int) -> None:
        x = np.full(4, number, np.float32)
        leaves = [np.asarray(leaf) for _, leaf in flatten(session(x))]
        assert any(np.array_equal(leaf, x) or np.array_equal(leaf, x.sum()) for leaf in leaves), (trial, number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(8)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("reference", "emulate"), default="reference")
    options = parser.parse_args()
    device: Any = options.device
    if device == "emulate":  # emulated GPUs interpret kernel bodies, so that nothing is compiled
        import meshgen.runtime.cuda.devices as devices
        from meshgen.runtime.emulation_options import Emulation

        devices.code_of = lambda *args: lambda name, capability: None  # type: ignore[assignment]
        device = Emulation(arch="sm_80", races=True)
    categories: Counter[str] = Counter()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.count):
            try:
                categories[run_trial(seed, Path(folder, "m.mgx"), device)] += 1
            except Exception as error:  # continue the campaign after a failed trial
                failed += 1
                sys.stderr.write(f"seed {seed}: {type(error).__name__}: {str(error)[:1500]}\n")
    summary = (
        f"{options.count} trials from seed {options.seed} on {options.device}: {failed} failed, {dict(categories)}"
    )
    sys.stdout.write(f"{summary}\n")
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
