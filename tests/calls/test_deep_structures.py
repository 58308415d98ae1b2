"""Arguments and results with structures that are too deep or contain themselves are rejected with a diagnostic."""

from __future__ import annotations

from typing import Any

import pytest

import meshgen as mg
from meshgen.calls.signature import signature_of
from meshgen.errors import UsageError
from meshgen.ir.limits import MAX_NESTING


def nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = {"k": leaf}
    return leaf


def innermost(p: Any) -> Any:
    while isinstance(p, dict):
        p = p["k"]
    return p + 1


def test_structure_within_the_limit_is_compiled_and_loaded(tmp_path: Any) -> None:
    executable = mg.compile(innermost, {"a": 2}, args=[nested(MAX_NESTING - 2, "f32[4]")], target="cpu")
    executable.save(tmp_path / "m.mgx")
    assert len(mg.load(tmp_path / "m.mgx").input_names) == 1


def test_structure_nested_too_deeply_is_refused() -> None:
    pytest.importorskip("jax")  # JAX would flatten the structures, so meshgen must reject them first.
    with pytest.raises(UsageError, match=rf"MG0006: .*more than {MAX_NESTING} deep"):
        mg.compile(innermost, {"a": 2}, args=[nested(200, "f32[4]")], target="cpu")
    with pytest.raises(UsageError, match="MG0006"):
        mg.compile(lambda x: nested(2000, x), {"a": 2}, args=["f32[4]"], target="cpu")
    itself: dict[str, Any] = {}
    itself["k"] = itself
    with pytest.raises(UsageError, match="MG0006"):
        mg.compile(innermost, {"a": 2}, args=[itself], target="cpu")


def test_call_with_structure_nested_too_deeply_is_refused() -> None:
    executable = mg.compile(innermost, {"a": 2}, args=[{"k": "f32[4]"}], target="cpu")
    with pytest.raises(mg.MeshgenError, match=r"MG0601|MG0006"):
        executable(nested(2000, 1.0))


def test_name_with_many_dots_is_one_leaf() -> None:
    signature = signature_of([".".join("x" * 3000)])
    assert [*signature.nodes] == [".".join("x" * 3000)]
