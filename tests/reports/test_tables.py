"""Report tables: aligned columns, with the reasons in the last column wrapped to the terminal width."""

from __future__ import annotations

import meshgen as mg
from meshgen import api
from meshgen.reports.tables import Table, render, table_of, work_table


def test_table_columns_are_aligned() -> None:
    table = table_of("Title", ("name", "bytes", "why"), [("a", 5, "so"), ("long name", 12345, "<b>")], left=("why",))
    assert render(table).splitlines() == [
        "Title",
        "name       bytes  why",
        "a              5  so",
        "long name  12345  <b>",
    ]
    assert render(table, "", html=True).endswith("&lt;b&gt;\n</pre>")


def test_table_reasons_wrap_between_words() -> None:
    table = Table("T", ["name", "why", "n"], [["x", "one two three four five six", "10"], ["y", "seven", "2"]], ["why"])
    assert render(table, width=30).splitlines() == [
        "T",
        "name  why                    n",
        "x     one two three four    10",
        "      five six",
        "y     seven                  2",
    ]


def test_long_word_is_broken_at_minimum_column_width() -> None:
    lines = render(Table("T", ["why"], [["x" * 45]]), width=5).splitlines()
    assert lines == ["T", "why", "x" * 20, "x" * 20, "x" * 5]


def test_table_wraps_only_reason_column() -> None:
    assert render(Table("T", ["name"], [["x" * 45]]), width=5).splitlines()[-1] == "x" * 45


def test_table_width_counts_wide_and_combining_characters() -> None:
    table = Table("T", ["name", "n"], [["漢字", "1"], ["abcde", "2"], ["e\u0301", "3"]])
    assert render(table).splitlines()[2:] == ["漢字   1", "abcde  2", "e\u0301      3"]


def test_empty_table_shows_header() -> None:
    assert render(Table("T", ["a", "why"], [])) == "T\na  why"


def test_work_table_merges_layers_and_shows_duplicated_flops() -> None:
    def model(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
        for _ in range(3):
            x = mg.tanh(x @ w)
        return x

    def table(spec: mg.Sharding) -> list[list[str]]:
        specs = {"x": spec, "w": mg.P(None, None)}
        executable = api.plan(model, {"x": 4}, args=["f32[64,32]", "f32[32,32]"], in_specs=specs, target="cpu")
        assert executable.analysis is not None
        return [[*row] for row in work_table(executable.analysis).rows]

    split, replicated = table(mg.P("x")), table(mg.P(None, None))
    assert split[0][0] == "3 x dot_general" and split[0][2:5] == ["98.3 kFLOP", "0 FLOP", ""]
    assert replicated[0][0] == "3 x dot_general" and replicated[0][2:5] == ["393 kFLOP", "295 kFLOP", "x"]
    assert [row[0] for row in replicated] == ["3 x dot_general", "3 x tanh"]
