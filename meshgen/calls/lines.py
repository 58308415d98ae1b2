"""Source lines of the user: the innermost line outside of meshgen and NumPy, preferably not in another library."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, TracebackType

import numpy as np

from meshgen.errors import Location

# Files that are not user code.
INSIDE = tuple(f"{place}{os.sep}" for place in (Path(__file__).parents[1], Path(np.__file__).parent))
LIBRARIES = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib"))


def location_of(frame: FrameType) -> Location:
    """Return the line and column of a frame."""
    return Location(frame.f_code.co_filename, frame.f_lineno, _column(frame.f_code, frame.f_lasti))


def failing_line(error: BaseException) -> Location | None:
    """Return the innermost line of user code that an exception passed through.

    Without such a line, returns the innermost line of a library except meshgen and NumPy, or None if there is none.
    """
    outside = [step for step in _steps(error) if not step.tb_frame.f_code.co_filename.startswith(INSIDE)]
    user_steps = [step for step in outside if not step.tb_frame.f_code.co_filename.startswith(LIBRARIES)]
    for step in (user_steps or outside)[-1:]:
        code = step.tb_frame.f_code
        return Location(code.co_filename, step.tb_lineno, _column(code, step.tb_lasti))
    return None


def _steps(error: BaseException) -> Iterator[TracebackType]:
    step = error.__traceback__
    while step:
        yield step
        step = step.tb_next


def _column(code: CodeType, instruction: int) -> int:
    """Return the 1-based column of an instruction, or 0 if the code was compiled without columns."""
    column = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)[2]
    return 0 if column is None else column + 1
