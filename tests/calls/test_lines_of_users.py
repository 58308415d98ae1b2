"""Source locations in the user's code: file, line and column of the innermost frame outside meshgen, NumPy and other
libraries.
"""

from __future__ import annotations

import json
import sys
from types import CodeType

from meshgen.calls.lines import failing_line, location_of
from meshgen.errors import Location

FILE = "model.py"


def failing_location(code: CodeType) -> Location | None:
    try:
        exec(code, {"loads": json.loads})
    except (ValueError, ZeroDivisionError) as error:
        return failing_line(error)
    raise AssertionError("nothing failed")


def test_location_of_failing_expression_has_one_based_column() -> None:
    assert failing_location(compile("x = 0\ny = 1 + 2 // x", FILE, "exec")) == Location(FILE, 2, 9)


def test_library_error_is_located_at_user_call() -> None:
    assert failing_location(compile("x = loads('{')", FILE, "exec")) == Location(FILE, 1, 5)


def test_location_of_frame_has_column() -> None:
    frame_location = location_of(sys._getframe())
    assert frame_location.file == __file__ and frame_location.column == 1 + len("    frame_location = ")
