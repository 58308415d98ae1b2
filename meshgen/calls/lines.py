"""Which lines are the user's: not those of meshgen and NumPy, and rather not those of other libraries."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, TracebackType

import numpy as np

from meshgen.errors import Location

INSIDE = tuple(f"{place}{os.sep}" for place in (Path(__file__).parents[1], Path(np.__file__).parent))  # not user code
LIBRARIES = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib"))


def location_of(frame: FrameType) -> Location:
    """The line and column of a frame."""
    return Location(frame.f_code.co_filename, frame.f_lineno, _column(frame.f_code, frame.f_lasti))


def failing_line(error: BaseException) -> Location | None:
    """The innermost line of the user's own code at which an exception passed, else of a library that is not meshgen or NumPy."""
    outside = [step for step in _steps(error) if not step.tb_frame.f_code.co_filename.startswith(INSIDE)]
    own = [step for step in outside if not step.tb_frame.f_code.co_filename.startswith(LIBRARIES)]
    for step in (own or outside)[-1:]:
        code = step.tb_frame.f_code
        return Location(code.co_filename, step.tb_lineno, _column(code, step.tb_lasti))
    return None


def _steps(error: BaseException) -> Iterator[TracebackType]:
    step = error.__traceback__
    while step:
        yield step
        step = step.tb_next


def _column(code: CodeType, instruction: int) -> int:
    """1-based column of an instruction; 0 where the code was compiled without columns."""
    column = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)[2]
    return 0 if column is None else column + 1
