"""Random Python functions of dicts and tuples of arrays, which are traced, compiled and called with keys in any order."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from meshgen import api
from meshgen.testing.generators.parameters import Nested, names_of, random_parameters, replaced, shuffled


def find_call_mismatch(seed: int, *, in_any_order: bool = True) -> str:
    """Compile and save the random function of a seed, call it in several ways, and compare the results.

    Args:
        in_any_order: whether to call it with dict keys in another order than in tracing.
    Returns:
        A message about the first difference, or "" if all results are equal.
    """
    nested = random_parameters(seed)
    rng = np.random.default_rng([seed, 7])
    arrays = {name: rng.integers(-99, 99, nested.kind.sizes).astype(np.int32) for name in names_of(nested.parameters)}
    expected = nested.program(*nested.filled(arrays.__getitem__))
    arguments = nested.filled(arrays.__getitem__)
    p, q = [shuffled(tree, rng) for tree in arguments] if in_any_order else arguments
    executable = api.compile(_two_argument_program(nested), nested.mesh, args=nested.filled(lambda _: str(nested.kind)),
                             in_specs=nested.specs, target="cpu")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.mgx"
        executable.save(path)
        callers: dict[str, Callable[[], Any]] = {
            "called": lambda: executable(p, q),
            "called by keyword": lambda: executable(p, q=q),
            "loaded and run by names": lambda: api.load(path).run(arrays),
        }
        for description, call in callers.items():
            if not all(np.array_equal(actual, reference) for actual, reference in zip(call(), expected, strict=True)):
                return f"{description} with {_keys(p)}, {_keys(q)}: wrong results"
    return ""


def _two_argument_program(nested: Nested) -> Callable[[Any, Any], Any]:
    def program(p: Any, q: Any) -> Any:
        return nested.program(p, q)

    return program


def _keys(tree: Any) -> str:
    return str(replaced(tree, lambda _: "..."))
