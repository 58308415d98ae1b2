"""`python -m bench training_loops [NAME...]`: sessions of compiled training steps, compared with the loops of their
frameworks.

Each loop runs 100 steps at three sizes, on 2 x 2 simulated devices: without annotations, with the batch split over dp,
and with the weights split over tp too. Losses and the final state must equal the framework's, and the memory of each
donated array must be reused for its next value.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from bench.training_loops.loop import Loop, batches
from meshgen.calls.argument_tree import leaves_of

MESH = {"dp": 2, "tp": 2}
SIZES, STEPS = (8, 16, 32), 100
TOLERANCE = 2e-3  # relative error, chosen for 100 steps in f32 with other summation orders


def loops() -> Iterator[tuple[str, Callable[[int], Loop] | str]]:
    """Yield the name of each loop with the function that creates it, or with the name of a missing package."""
    for name, package in (
        ("sgd", "jax"), ("momentum", "jax"), ("adam", "jax"), ("accumulated", "jax"), ("adamw", "optax"), ("linen", "flax"),
        ("nnx", "flax"), ("equinox", "equinox"), ("haiku", "haiku"), ("torch", "torch"),
    ):  # fmt: skip
        try:
            __import__(package)
        except ImportError:
            yield name, package
            continue
        if package in ("jax", "optax"):
            from bench.training_loops import plain as module
        else:
            from bench.training_loops import frameworks as module
        yield name, getattr(module, name)


def annotations(loop: Loop) -> dict[str, dict[str, Any]]:
    """Return three sets of specs for a loop: `none`, `batch` (the batch is split), and `all` (the batch and the weights
    are split).
    """
    rows = dict.fromkeys(loop.batch, mg.P("dp"))
    split: dict[str, Any] = {}
    for root, tree in loop.state.items():
        for path, leaf in leaves_of(tree):
            shape = tuple(getattr(leaf, "shape", ()))
            if len(shape) == 2:
                split[".".join((root, *path))] = mg.P(None, "tp") if shape[1] >= shape[0] else mg.P("tp")
    return {"none": {}, "batch": rows, "all": rows | split}


def differences(
    loop: Loop, size: int, specs: dict[str, Any], path: Path, steps: int = STEPS
) -> tuple[float, list[str]]:
    """Run a loop and a session. Return the largest relative error of losses and state arrays, and the texts of the
    warnings MG0111 and MG0112.
    """
    first = batches(size, 0)
    args = (*loop.state.values(), *first)
    exe = mg.compile(loop.program, MESH, args=args, in_specs=specs, donate=loop.donate, target="cpu")
    exe.save(path)
    state, errors = tuple(loop.state.values()), [0.0]
    with mg.load(path).session() as session:
        for name, tree in loop.state.items():
            session[name] = tree
        for step in range(steps):
            batch = batches(size, step)
            state, loss = loop.step(*state, *batch)
            errors.append(_error(_loss(session(*batch)), np.asarray(loss)))
        for name, tree in zip(loop.state, state, strict=True):
            errors += _errors(session[name], tree)
    faults = [warning.message for warning in exe.warnings if warning.code in ("MG0111", "MG0112")]
    return max(errors), faults


def _loss(result: Any) -> Any:
    return np.asarray(result["loss"] if isinstance(result, dict) else result)


def _errors(got: Any, want: Any) -> Iterator[float]:
    for (path, one), (other, two) in zip(leaves_of(got), leaves_of(want), strict=True):
        assert path == other, f"the state has {path} where the framework has {other}"
        yield _error(np.asarray(_words(one)), np.asarray(_words(two)))


def _words(leaf: Any) -> Any:
    """Return the integers of a typed PRNG key. Return other leaves unchanged."""
    if hasattr(leaf, "dtype") and "key" in str(leaf.dtype):
        import jax

        return jax.random.key_data(leaf)
    return leaf


def _error(got: Any, want: Any) -> float:
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(np.abs(got - want).max(initial=0.0) / max(1.0, np.abs(want).max(initial=0.0)))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench training_loops", description=__doc__)
    parser.add_argument("names", nargs="*", help="loops; default: all")
    names = parser.parse_args(words).names
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, make in loops():
            if names and name not in names:
                continue
            if isinstance(make, str):
                _say(f"{name:12} not run: {make} is not installed")
                continue
            for size in SIZES:
                for extent in ("none", "batch", "all"):
                    loop = make(size)
                    error, faults = differences(loop, size, annotations(loop)[extent], Path(folder, "m.mgx"))
                    is_right = error <= TOLERANCE and not faults
                    failed += not is_right
                    tail = "" if is_right else f"WRONG {'; '.join(faults)}"
                    _say(f"{name:12} {size:4} {extent:6} error {error:.1e} {tail}".rstrip())
    return 3 if failed else 0
