"""Source locations of operations in an exported program: the user's code line and the module of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import PurePath

from meshgen.errors import Location

_FRAME = re.compile(r'File "([^"]*)", line (\d+), in ')
_LIBRARY = "torch"  # Name of the torch package's folder; lines of its files are not user code.


def place_of(metadata: Mapping[str, str]) -> Location | None:
    """Return the location of a node: the innermost source line outside of torch, with the module path as scope.

    A module path is, for example, `layers/0/attn`. Returns None for nodes that torch created without a stack trace and
    outside of all modules.
    """
    frames = [(file, int(line)) for file, line in _FRAME.findall(metadata.get("stack_trace", "")) if file[0] != "<"]
    user_frames = [frame for frame in frames if not _is_library(frame[0])]
    if not frames:
        return Location("<torch>", 0, scope=_scope(metadata)) if _scope(metadata) else None
    file, line = (user_frames or frames)[-1]
    return Location(file, line, scope=_scope(metadata))


def _is_library(file: str) -> bool:
    """Whether `file` belongs to the installed package torch."""
    parts = PurePath(file).parts
    return any(a in ("site-packages", "dist-packages") and b == _LIBRARY for a, b in pairwise(parts))


def _scope(metadata: Mapping[str, str]) -> str:
    """Return the path of the innermost module, with slashes instead of dots, or an empty string.

    The metadata has the form `key,path,type;key,path,type;...`.
    """
    for entry in reversed(metadata.get("nn_module_stack", "").split(";")):
        fields = entry.split(",")
        if len(fields) >= 3 and fields[-2]:
            return re.sub(r"@\d+$", "", fields[-2]).replace(".", "/")
    return ""
