"""Random Python functions of dicts and tuples of arrays: traced, compiled, and called with keys in any order."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from meshgen import api
from meshgen.testing.generators.parameters import Nested, names_of, random_parameters, replaced, shuffled


def calls_agree(seed: int, *, in_any_order: bool = True) -> str:
    """The differences between calls of the seed's function in memory and from a file; empty if there are none.

    Args:
        in_any_order: the keys of dicts come in another order than when the function was traced.
    """
    nested = random_parameters(seed)
    rng = np.random.default_rng([seed, 7])
    arrays = {name: rng.integers(-99, 99, nested.kind.sizes).astype(np.int32) for name in names_of(nested.parameters)}
    wanted = nested.program(*nested.filled(arrays.__getitem__))
    given = nested.filled(arrays.__getitem__)
    p, q = [shuffled(tree, rng) for tree in given] if in_any_order else given
    executable = api.compile(_two_argument_program(nested), nested.mesh, args=nested.filled(lambda _: str(nested.kind)),
                             in_specs=nested.specs, target="cpu")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.mgx"
        executable.save(path)
        ways: dict[str, Callable[[], Any]] = {
            "called": lambda: executable(p, q),
            "called by keyword": lambda: executable(p, q=q),
            "loaded and run by names": lambda: api.load(path).run(arrays),
        }
        for way, call in ways.items():
            if not all(np.array_equal(got, want) for got, want in zip(call(), wanted, strict=True)):
                return f"{way} with {_keys(p)}, {_keys(q)}: other numbers"
    return ""


def _two_argument_program(nested: Nested) -> Callable[[Any, Any], Any]:
    def program(p: Any, q: Any) -> Any:
        return nested.program(p, q)

    return program


def _keys(tree: Any) -> str:
    return str(replaced(tree, lambda _: "..."))
