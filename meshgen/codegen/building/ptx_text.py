"""PTX as stored in a module: the code and the lines of its Triton source, independent of the build machine.

The compiler writes names of files, debug sections and comments into it. ptxas assembles what is left, so that a module's PTX is that of its
machine code; lines of functions that were inlined become those in the kernel that called them.
"""

from __future__ import annotations

import re

SOURCE = (
    "kernel.py"  # the file name of the kernel's own source, independent of the kernel's name: equal code is equal text
)
_COMMENT = re.compile(r"[ \t]*//[^\n]*")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"[^\n]*\n', re.M)
_SECTION = re.compile(r"^\s*\.section\s+\.debug_\w+\s*\{[^{}]*\}[^\n]*\n", re.M)
_LABEL = re.compile(r"^\$L__(?:tmp|func_begin|func_end|info_string)\d*:[ \t]*\n", re.M)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)([^\n]*)\n", re.M)
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
Place = tuple[int, int, int]  # file, line, column


def portable_ptx(text: str) -> str:
    """The text without comments, debug sections and paths; lines are those of the kernel's own source.

    Raises ValueError if it has no line of that.
    """
    text = _COMMENT.sub("", text)
    own = next((int(number) for number, name in _FILE.findall(text) if "meshgen_kernel" in name), None)
    if own is None:
        raise ValueError("the PTX has no line table of the kernel")
    text = _SECTION.sub("", _FILE.sub("", text))
    text = _lines_of(own, _LABEL.sub("", text))
    text = re.sub(r"\n\s*\n+", "\n", text).strip() + "\n"
    return f'{text}\t.file\t1 "{SOURCE}"\n'


def _lines_of(own: int, text: str) -> str:
    """`.loc` of the kernel's own source only, and only where the line changes; a caller's place stands for what it calls."""
    callers: dict[Place, Place] = {}
    last = ""

    def replaced(found: re.Match[str]) -> str:
        nonlocal last
        place: Place = (int(found[1]), int(found[2]), int(found[3]))
        if inlined := _INLINED.search(found[4]):
            callers[place] = (int(inlined[1]), int(inlined[2]), int(inlined[3]))
        else:
            callers.pop(place, None)
        seen: set[Place] = set()
        while place in callers and place not in seen:
            seen.add(place)
            place = callers[place]
        line = f"\t.loc\t1 {place[1]} 0\n"
        if place[0] != own or line == last:
            return ""
        last = line
        return line

    return _LOC.sub(replaced, text)
