"""Tables of measured tiles: files, merging, and looking up."""

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


def test_a_table_that_is_written_is_read_back(tmp_path: Path) -> None:
    table = TuningTable([replace(ROW, kernel="b"), ROW, replace(ROW, device="GPU 2", tile={})])
    table.write(tmp_path / "t.json")
    assert read_table(tmp_path / "t.json").rows == table.rows
    assert [row.kernel for row in table.rows] == ["ab", "ab", "b"]


def test_merging_keeps_the_better_measured_row_in_any_order(tmp_path: Path) -> None:
    rows = [ROW, replace(ROW, cold=1e-5), replace(ROW, rounds=20, cold=1.0), replace(ROW, rounds=20, cold=1.0, tile={"m": 1}),
            replace(ROW, shapes="other")]  # fmt: skip
    tables = [TuningTable([row]) for row in rows]
    merged = {tuple(map(repr, reduce(TuningTable.merged, order).rows)) for order in itertools.permutations(tables)}
    assert len(merged) == 1
    for number, table in enumerate(tables):
        table.write(tmp_path / f"{number}.json")
    found = merge(sorted(tmp_path.iterdir()))
    assert {row.rounds for row in found.rows} == {15, 20} and len(found.rows) == 2
    assert found.merged(found).rows == found.rows


def test_a_new_measurement_replaces_an_old_one() -> None:
    worse = replace(ROW, rounds=1, cold=1.0)
    assert TuningTable([ROW]).with_rows([worse]).rows == [worse]


def test_a_kernel_is_looked_up_by_structure_class_and_architecture() -> None:
    b = Body("f32[4000]")
    body = b.done(b.op("tanh", *b.inputs))
    own = replace(ROW, kernel=kernel_digest(body), shapes=shape_class(body))
    fast = replace(own, device="GPU 2", warm=1e-6)
    table = TuningTable([own, fast, replace(own, arch="sm_80", device="GPU 0", warm=1e-7)])
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
def test_what_is_no_table_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"MG0007: .* is not a table of measured tiles"):
        read_table(tmp_path / "t.json")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path, Path("a\0b")):
        with pytest.raises(UsageError, match="MG0002"):
            read_table(path)
