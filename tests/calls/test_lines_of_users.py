"""Places of the user's code: file, line and column of the innermost frame that is not meshgen's, NumPy's or a library's."""

from __future__ import annotations

import json
import sys
from types import CodeType

from meshgen.calls.lines import failing_line, location_of
from meshgen.errors import Location

FILE = "model.py"


def failure(code: CodeType) -> Location | None:
    try:
        exec(code, {"loads": json.loads})
    except (ValueError, ZeroDivisionError) as error:
        return failing_line(error)
    raise AssertionError("nothing failed")


def test_the_column_of_a_failing_expression_counts_from_one() -> None:
    assert failure(compile("x = 0\ny = 1 + 2 // x", FILE, "exec")) == Location(FILE, 2, 9)


def test_what_a_library_raises_is_the_users_line() -> None:
    assert failure(compile("x = loads('{')", FILE, "exec")) == Location(FILE, 1, 5)


def test_the_place_of_a_frame_has_a_column() -> None:
    here = location_of(sys._getframe())
    assert here.file == __file__ and here.column == 1 + len("    here = ")
