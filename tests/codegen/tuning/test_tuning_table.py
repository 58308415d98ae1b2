"""Tests of tables of measured tiles: files, merging, and lookup."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

from meshgen.codegen.tuning.keys import kernel_digest, shape_class
from meshgen.codegen.tuning.table import Row, TuningTable, merge, read_table
from meshgen.errors import UsageError
from tests.codegen.bodies import Body

ROW = Row("ab", "f32[64] -> f32[64]", "GPU 1", "sm_90", "dot", {"m": 64, "parts": 1}, 1e-5, 2e-5, 3e-5, 15)


def test_tuning_table_round_trips_through_a_file(tmp_path: Path) -> None:
    table = TuningTable([replace(ROW, kernel="b"), ROW, replace(ROW, device="GPU 2", tile={})])
    table.write(tmp_path / "t.json")
    assert read_table(tmp_path / "t.json").rows == table.rows
    assert [row.kernel for row in table.rows] == ["ab", "ab", "b"]


def test_table_merge_keeps_the_best_measured_row_in_any_order(tmp_path: Path) -> None:
    rows = [ROW, replace(ROW, cold=1e-5), replace(ROW, rounds=20, cold=1.0), replace(ROW, rounds=20, cold=1.0, tile={"m": 1}),
            replace(ROW, shapes="other")]  # fmt: skip
    tables = [TuningTable([row]) for row in rows]
    merged = {tuple(map(repr, reduce(TuningTable.merged, order).rows)) for order in itertools.permutations(tables)}
    assert len(merged) == 1
    for index, table in enumerate(tables):
        table.write(tmp_path / f"{index}.json")
    merged_files = merge(sorted(tmp_path.iterdir()))
    assert {row.rounds for row in merged_files.rows} == {15, 20} and len(merged_files.rows) == 2
    assert merged_files.merged(merged_files).rows == merged_files.rows


def test_new_measurement_replaces_an_old_one() -> None:
    worse = replace(ROW, rounds=1, cold=1.0)
    assert TuningTable([ROW]).with_rows([worse]).rows == [worse]


def test_table_lookup_uses_structure_shape_class_and_arch() -> None:
    b = Body("f32[4000]")
    body = b.done(b.op("tanh", *b.inputs))
    measured = replace(ROW, kernel=kernel_digest(body), shapes=shape_class(body))
    fast = replace(measured, device="GPU 2", warm=1e-6)
    table = TuningTable([measured, fast, replace(measured, arch="sm_80", device="GPU 0", warm=1e-7)])
    assert table.find(body, "sm_90") == fast
    assert table.find(body, "sm_100") is None and TuningTable().find(body, "sm_90") is None


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"format": 1}', '{"format": 2, "rows": []}', '{"format": 1, "rows": {}}', "[" * 100_000, "\xff",
        *(json.dumps({"format": 1, "rows": [vars(ROW) | change]}) for change in (
            {"tile": 3}, {"warm": -1}, {"rounds": 1.5}, {"device": None}, {"tile": {"m": 1 << 70}}, {"cold": float("nan")})),
    ],
)  # fmt: skip
def test_invalid_tuning_table_is_rejected(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"MG0007: .* is not a table of measured tiles"):
        read_table(tmp_path / "t.json")


def test_missing_tuning_table_is_rejected(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path, Path("a\0b")):
        with pytest.raises(UsageError, match="MG0002"):
            read_table(path)
