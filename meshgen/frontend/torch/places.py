"""Where the user wrote an operation of an exported program, and in which module of the model it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import PurePath

from meshgen.errors import Location

_FRAME = re.compile(r'File "([^"]*)", line (\d+), in ')
_LIBRARY = "torch"  # its own folder: lines of it are not the user's


def place_of(metadata: Mapping[str, str]) -> Location | None:
    """The innermost line outside of torch, and the path of the module as a scope, `layers/0/attn`; None for code that torch has made."""
    frames = [(file, int(line)) for file, line in _FRAME.findall(metadata.get("stack_trace", "")) if file[0] != "<"]
    own = [frame for frame in frames if not _is_library(frame[0])]
    if not frames:
        return Location("<torch>", 0, scope=_scope(metadata)) if _scope(metadata) else None
    file, line = (own or frames)[-1]
    return Location(file, line, scope=_scope(metadata))


def _is_library(file: str) -> bool:
    """Whether a file is one of the installed package torch."""
    parts = PurePath(file).parts
    return any(a in ("site-packages", "dist-packages") and b == _LIBRARY for a, b in pairwise(parts))


def _scope(metadata: Mapping[str, str]) -> str:
    """The innermost module of `key,path,type;key,path,type;...`, whose path has dots."""
    for entry in reversed(metadata.get("nn_module_stack", "").split(";")):
        fields = entry.split(",")
        if len(fields) >= 3 and fields[-2]:
            return re.sub(r"@\d+$", "", fields[-2]).replace(".", "/")
    return ""
