"""The texts of stages in a module's file, each compressed with gzip: uncompressed they would be most of it.

Their digests are of the members as they are, so loading a module expands none of them.
"""

from __future__ import annotations

import gzip
import zlib

from meshgen.budget import memory_fault
from meshgen.ir.graph import STAGES
from meshgen.runtime.module_file.members import Members, damaged

FOLDER = "stages/"
MAX_STAGE_BYTES = 1 << 32  # of an expanded text; a forged member of a few MB could expand to GBs
_SUFFIX = ".mlir.gz"
_COPIES = 2  # of a text while it is decoded: bytes and characters
_LEVEL = 6  # of zlib: a sixth smaller texts than the fastest level makes, in less than a hundredth of the time of printing them
_GZIP = 31  # zlib's number for the largest window with gzip's header


def stage_member(stage: str) -> str:
    """The member with the text of a stage: `stages/00_import.mlir.gz`."""
    return f"{FOLDER}{STAGES.index(stage):02}_{stage}{_SUFFIX}"


def stage_of(member: str) -> str | None:
    """The stage whose text a member has; None if it has none."""
    return next((stage for stage in STAGES if member == stage_member(stage)), None)


def packed(text: str) -> bytes:
    """The text as a member: the same bytes every time."""
    return gzip.compress(text.encode(), _LEVEL, mtime=0)


def unpacked(members: Members, name: str) -> str:
    """The text in a member. Raises ModuleError MG0502 for one that is not a text, or that expands to more than a stage may have."""
    expander = zlib.decompressobj(_GZIP)
    claimed = int.from_bytes(members[name][-4:], "little")  # gzip ends with the size of the content, modulo 2^32
    if fault := memory_fault(_COPIES * claimed, f"the text of '{name}'"):
        raise damaged(members.path, fault)
    try:
        content = expander.decompress(members[name], max(1, min(claimed, MAX_STAGE_BYTES)))
    except zlib.error as error:
        raise damaged(members.path, f"'{name}' cannot be expanded ({error})") from error
    if not expander.eof or expander.unused_data:
        is_long = expander.unconsumed_tail and claimed > MAX_STAGE_BYTES
        reason = f"more than {MAX_STAGE_BYTES} bytes" if is_long else "not one complete text"
        raise damaged(members.path, f"'{name}' is {reason}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise damaged(members.path, f"'{name}' is not UTF-8 ({error.reason} at byte {error.start})") from error
