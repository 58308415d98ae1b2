"""PTX as stored in a module: the code and the line numbers of its Triton source, independent of the build machine.

File names, debug sections and comments of the compiler are removed. ptxas assembles the remaining text, so a module's
PTX matches its machine code. Lines of inlined functions become the lines of their call sites in the kernel.
"""

from __future__ import annotations

import re

# The name of the source file in the PTX. It does not contain the kernel's name, so that equal code has equal text.
SOURCE = "kernel.py"
_COMMENT = re.compile(r"[ \t]*//[^\n]*")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"[^\n]*\n', re.M)
_SECTION = re.compile(r"^\s*\.section\s+\.debug_\w+\s*\{[^{}]*\}[^\n]*\n", re.M)
_LABEL = re.compile(r"^\$L__(?:tmp|func_begin|func_end|info_string)\d*:[ \t]*\n", re.M)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)([^\n]*)\n", re.M)
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
Place = tuple[int, int, int]  # a source location: (file number, line, column)


def portable_ptx(text: str) -> str:
    """Return the PTX without comments, debug sections and paths; line numbers refer to the kernel's own source.

    Raises:
        ValueError: the PTX has no line table of the kernel's source.
    """
    text = _COMMENT.sub("", text)
    source_file = next((int(number) for number, name in _FILE.findall(text) if "meshgen_kernel" in name), None)
    if source_file is None:
        raise ValueError("the PTX has no line table of the kernel")
    text = _SECTION.sub("", _FILE.sub("", text))
    text = _lines_of(source_file, _LABEL.sub("", text))
    text = re.sub(r"\n\s*\n+", "\n", text).strip() + "\n"
    return f'{text}\t.file\t1 "{SOURCE}"\n'


def _lines_of(source_file: int, text: str) -> str:
    """Keep only the `.loc` directives of file `source_file`, and only where the line changes.

    Inlined code gets the line of its call site.
    """
    callers: dict[Place, Place] = {}
    last = ""

    def replaced(directive: re.Match[str]) -> str:
        nonlocal last
        place: Place = (int(directive[1]), int(directive[2]), int(directive[3]))
        if inlined := _INLINED.search(directive[4]):
            callers[place] = (int(inlined[1]), int(inlined[2]), int(inlined[3]))
        else:
            callers.pop(place, None)
        seen: set[Place] = set()
        while place in callers and place not in seen:
            seen.add(place)
            place = callers[place]
        line = f"\t.loc\t1 {place[1]} 0\n"
        if place[0] != source_file or line == last:
            return ""
        last = line
        return line

    return _LOC.sub(replaced, text)
