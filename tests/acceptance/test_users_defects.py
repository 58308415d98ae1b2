"""Defects that first-time users reported. Each test has the user's program and the correct result."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from tests.sources import PACKAGE, ROOT

X = np.arange(4, dtype=np.float32)


def test_numpy_scalar_takes_tensor_dtype() -> None:
    exe = mg.compile(lambda x: x / np.sqrt(8), {"dp": 2}, args=["bf16[4]"], target="cpu")
    assert exe(np.ones(4, "float32").astype("bfloat16")).dtype == "bfloat16"


def test_numbered_specs_refer_to_the_callers_arguments() -> None:
    jax = pytest.importorskip("jax")
    exe = mg.compile(
        jax.jit(lambda a, b, c: b * 2 + c).lower(X, X, X), {"d": 2}, in_specs={"arg1": mg.P("d")}, target="cpu"
    )
    assert "annotated as [{d}]" in exe.explain("b") and "not annotated" in exe.explain("c")
    np.testing.assert_array_equal(exe(X, X + 1, X), (X + 1) * 2 + X)


def test_donated_memory_is_reused() -> None:
    jax = pytest.importorskip("jax")
    cache, token = np.zeros((1024, 64), np.float32), np.ones((1, 64), np.float32)

    def decode(cache, token):
        return jax.lax.dynamic_update_slice(cache, token, (3, 0))

    plain, donated = (
        mg.compile(jax.jit(decode, donate_argnums=donated_arguments), {"d": 2}, args=(cache, token), target="cpu")
        for donated_arguments in ((), 0)
    )
    assert donated.memory.peak_bytes < plain.memory.peak_bytes * 0.6


def test_integer_sum_and_logical_and_match_numpy() -> None:
    def both(a, b):
        return mg.logical_and(a, b), mg.sum(a)

    a = np.full(4, 100, np.int8)
    truth, total = mg.compile(both, {"d": 2}, args=["i8[4]", "i8[4]"], target="cpu")(a, np.array([2, 1, 0, 4], np.int8))
    np.testing.assert_array_equal(truth, [True, True, False, True])
    assert total == 400


def test_loaded_module_is_called_like_its_program(tmp_path: Path) -> None:
    exe = mg.compile(lambda x, w: {"b": x @ w, "a": (x, w)}, {"d": 2}, args=["f32[2,4]", "f32[4,4]"], target="cpu")
    exe.save(tmp_path / "m.mgx")
    x, w = np.ones((2, 4), np.float32), np.eye(4, dtype=np.float32)
    module = mg.load(tmp_path / "m.mgx")
    results = module(w=w, x=x)
    assert list(results) == ["b", "a"] and isinstance(results["a"], tuple)
    np.testing.assert_array_equal(results["b"], x)
    assert re.fullmatch(r"LoadedModule\('\w+', Mesh\(d=2\), 2 inputs\)", repr(module))


def test_traced_dtype_equals_numpy_dtype() -> None:
    seen: list[bool] = []
    mg.trace(lambda x: (seen.append(x.dtype == np.float32), x)[1], ["f32[4]"])
    assert seen == [True]


def test_unknown_partial_kind_lists_the_valid_kinds() -> None:
    with pytest.raises(mg.MeshgenError, match=r"unknown partial kind 'prod'(?s:.)*product"):
        mg.compile(lambda x: x * 2, {"tp": 2}, args=["f32[4]"], in_specs=[mg.P(partial={"tp": "prod"})], target="cpu")


def test_callback_is_reported_once() -> None:
    jax = pytest.importorskip("jax")

    def f(x):
        return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((4,), "float32"), x)

    with pytest.raises(mg.MeshgenError) as refused:
        mg.compile(jax.jit(f).lower(X), {"d": 2}, in_specs=[mg.P("d")], target="cpu")
    assert [diagnostic.code for diagnostic in refused.value.diagnostics] == ["MG0103"]


def test_strict_mode_refuses_gather_over_a_sub_axis() -> None:
    def f(x):
        return mg.reshape(x, (30, 8))

    with pytest.raises(mg.MeshgenError, match=r"MG0210(?s:.)*tp:\(2\)2"):
        mg.compile(
            f, {"tp": 4}, args=["f32[240]"], in_specs=[mg.P("tp")], out_specs=mg.P("tp"), target="cpu", strict=True
        )


def test_list_result_is_returned_as_list() -> None:
    jax = pytest.importorskip("jax")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    result = mg.compile(jax.jit(lambda x: jax.lax.top_k(x, 2)), {"d": 2}, args=(x,), target="cpu")(x)
    assert type(result) is type(jax.lax.top_k(x, 2))


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_functions_return_non_finite_values_at_poles_silently(name: str) -> None:
    exe = mg.compile(getattr(mg, name), {"d": 2}, args=["f32[4]"], target="cpu")
    result = exe(np.array([0, -1, -2, 0.5], np.float32))  # pytest turns warnings into errors
    assert not np.isfinite(result[:3]).any() and np.isfinite(result[3])


def test_report_css_has_no_unused_class() -> None:
    folder = PACKAGE / "reports" / "page"
    style = re.sub(r"\{[^}]*\}", "", (folder / "page.css").read_text())
    users = "\n".join(
        path.read_text()
        for path in (PACKAGE / "reports").rglob("*")
        if path.suffix in (".py", ".js", ".html") or ".html" in path.name
    )
    unused = [name for name in set(re.findall(r"\.([a-z][\w-]*)", style)) if not re.search(rf"\b{name}\b", users)]
    assert unused == []


def test_benchmarks_read_only_repository_files() -> None:
    readers = [path for path in (ROOT / "bench").rglob("*.py") if re.search(r"""["'/]shared["'/]""", path.read_text())]
    assert readers == []
