"""The texts of compilation stages in a module file.

They are compressed with gzip, because they would be most of the file.

The manifest has digests of the compressed members, so loading a module decompresses none of them.
"""

from __future__ import annotations

import gzip
import zlib

from meshgen.budget import memory_fault
from meshgen.ir.graph import STAGES
from meshgen.runtime.module_file.members import Members, damaged

FOLDER = "stages/"
# largest size of a decompressed text in bytes (chosen: a forged member of a few MB could expand to hundreds of GB)
MAX_STAGE_BYTES = 1 << 32
_SUFFIX = ".mlir.gz"
_COPIES = 2  # number of copies of a text in memory while it is decoded: bytes and characters
# zlib's compression level: a sixth smaller than level 1, and below 1 % of the time that printing the texts takes
_LEVEL = 6
_GZIP = 31  # zlib's `wbits` for the largest window and a gzip header


def stage_member(stage: str) -> str:
    """Return the name of the member that contains the text of a stage, such as `stages/00_import.mlir.gz`."""
    return f"{FOLDER}{STAGES.index(stage):02}_{stage}{_SUFFIX}"


def stage_of(member: str) -> str | None:
    """Return the stage whose text a member contains, or None if the member is not a stage text."""
    return next((stage for stage in STAGES if member == stage_member(stage)), None)


def packed(text: str) -> bytes:
    """Return the compressed text. Equal texts give equal bytes."""
    return gzip.compress(text.encode(), _LEVEL, mtime=0)


def unpacked(members: Members, name: str) -> str:
    """Return the decompressed text of a member.

    Raises ModuleError MG0502 if it is not valid gzip or UTF-8, or expands to more than `MAX_STAGE_BYTES`.
    """
    expander = zlib.decompressobj(_GZIP)
    claimed = int.from_bytes(members[name][-4:], "little")  # a gzip file ends with the uncompressed size modulo 2^32
    if fault := memory_fault(_COPIES * claimed, f"the text of '{name}'"):
        raise damaged(members.path, fault)
    try:
        content = expander.decompress(members[name], max(1, min(claimed, MAX_STAGE_BYTES)))
    except zlib.error as error:
        raise damaged(members.path, f"'{name}' cannot be expanded ({error})") from error
    if not expander.eof or expander.unused_data:
        is_too_long = expander.unconsumed_tail and claimed > MAX_STAGE_BYTES
        reason = f"more than {MAX_STAGE_BYTES} bytes" if is_too_long else "not one complete text"
        raise damaged(members.path, f"'{name}' is {reason}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise damaged(members.path, f"'{name}' is not UTF-8 ({error.reason} at byte {error.start})") from error
