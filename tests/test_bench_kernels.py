"""The table of kernels: what is generated, without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("triton")

from bench.kernels.baselines import baseline
from bench.kernels.programs import PROGRAMS, SHAPES
from bench.kernels.static import described
from bench.kernels.table import main, read, table
from meshgen.errors import UsageError


@pytest.fixture(scope="module")
def product() -> dict[str, Any]:
    return described("product-1024x1024x1024")


def test_a_record_says_what_was_built(product: dict[str, Any]) -> None:
    (kernel,) = product["kernels"]
    assert kernel["template"] == "dot" and kernel["spill_bytes"] == 0 and kernel["launches"] == 1
    assert kernel["units"].get("HGMMA", 0) > 0 and kernel["copies"]
    assert product["flops"] == 2 * 1024**3 and product["bytes"] == 3 * 2 * 1024**2
    assert 0.9 < kernel["sectors"] <= 1 and 0 < product["seconds"] < 1e-3
    assert json.loads(json.dumps(product)) == product


def test_the_table_has_columns_of_measurements_where_there_are_any(product: dict[str, Any]) -> None:
    static = table([product]).splitlines()
    assert len(static) == 3 and static[0].count("|") == static[2].count("|") and "measured" not in static[0]
    times = {
        "us": 10.0,
        "cold_us": 12.0,
        "spread": 0.02,
        "of_ceiling": 0.91,
        "against": "torch",
        "against_us": 11.0,
        "correct": True,
    }
    both = table([{**product, "measured": times}]).splitlines()
    assert both[0].count("|") == both[2].count("|") and "1.10 x" in both[2] and "91%" in both[2] and "yes" in both[2]


def test_records_are_appended_and_unknown_names_refused(tmp_path: Path) -> None:
    place = tmp_path / "kernels.jsonl"
    assert main(["cast", "--output", str(place)]) == 0
    assert [record["program"] for record in read(place)] == ["cast"]
    with pytest.raises(UsageError, match="MG0001"):
        main(["no-such-program"])


def test_every_program_lowers_and_there_are_twenty_shapes() -> None:
    assert len(set(SHAPES)) == 20
    for name in ("gated", "attention-gradient", "adamw", "look-up-gradient", "pooling", "top-k"):
        assert "func.func" in PROGRAMS[name].lowered().as_text()


def test_programs_have_baselines() -> None:
    torch = SimpleNamespace(matmul=lambda x, w: x @ w, nn=SimpleNamespace(functional=SimpleNamespace()))
    lacking = {name for name in PROGRAMS if baseline(torch, name) is None}
    assert lacking == {
        "product-f8", "product-i8", "attention-gradient", "layer-norm-gradient", "adamw", "look-up-gradient", "convolution", "pooling", "top-k",
    }  # fmt: skip
