"""Tables that fit are written without rich, as it would write them."""

from __future__ import annotations

import random

import pytest

from meshgen.reports.tables import Table, render

_LETTERS = "ab c1.[]{}:%-"


def _word(pick: random.Random, most: int) -> str:
    return "".join(pick.choice(_LETTERS) for _ in range(pick.randint(0, most))).strip()


def _made(pick: random.Random) -> Table:
    columns = [pick.choice(["a", "why", "seconds", "long column"]) for _ in range(pick.randint(1, 5))]
    rows = [[_word(pick, 20) for _ in columns] for _ in range(pick.randint(0, 4))]
    return Table(_word(pick, 20), columns, rows, pick.sample(columns, 1))


@pytest.mark.parametrize("seed", range(100))
def test_a_plain_table_is_as_rich_writes_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _made(random.Random(seed))
    assert table.is_plain(150)
    plain = render(table)
    monkeypatch.setattr(Table, "is_plain", lambda *_: False)
    assert render(table) == plain


@pytest.mark.parametrize(
    ("table", "width"),
    [
        (Table("wide", ["a"], [["x" * 21]]), 20),
        (Table("a title that is wide", ["a"], []), 19),
        (Table("two columns", ["a", "b"], [["x" * 9, "y" * 10]]), 20),
        (Table("wide letters", ["a"], [["漢"]]), 20),
        (Table("lines", ["a"], [["x\ny"]]), 20),
    ],
)
def test_what_rich_has_to_fold_is_left_to_it(table: Table, width: int) -> None:
    assert not table.is_plain(width)
