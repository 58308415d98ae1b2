"""The large constants of stages: their bytes are in the file once, and texts refer to them by their digest.

    %0 = stablehlo.constant dense_resource<sha256_9f86...> : tensor<4096x4096xf32>

Most are constants of the plan, which are in `constants.safetensors` anyway. Others, which only earlier stages have, are bytes in
`resources.safetensors`. A text that is taken out of a module ends with MLIR's section of resources, and so is complete by itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from meshgen.runtime.module_file import tensors
from meshgen.runtime.module_file.members import Members, damaged
from meshgen.runtime.module_file.stage_texts import unpacked

RESOURCES = "resources.safetensors"
LEAST_BYTES = 1024  # of a constant that texts refer to: the name and a tensor of its own take a tenth of that
_WITH_CONSTANTS = ("constants.safetensors", RESOURCES)
_REFERENCE = re.compile(r"\bdense_resource<(sha256_[0-9a-f]{64})>")
_ALIGNMENT = "40000000"  # what MLIR writes before the bytes of a resource: 64, as 32 bits in hexadecimal
Content = bytes | memoryview


class Resources:
    """The constants that the texts of one program refer to, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Content] = {}
        self._names: dict[tuple[int, int], tuple[Content, str]] = {}  # by place, which the content so keeps

    def name(self, content: Content) -> str:
        """The name of a constant with this content; stages share arrays, of each of which the digest is computed once."""
        place = np.frombuffer(content, np.uint8).ctypes.data, len(content)
        if place not in self._names:
            self._names[place] = content, _content_name(content)
            self.by_name.setdefault(self._names[place][1], content)
        return self._names[place][1]


def resource_members(resources: Mapping[str, Content], members: Mapping[str, bytes]) -> dict[str, bytes]:
    """The member with those that are not among the constants in `members`; nothing where there are none."""
    held = set(map(_content_name, _contents(members, {name: memoryview(content) for name, content in members.items()})))
    others = {name: np.frombuffer(content, np.uint8) for name, content in resources.items() if name not in held}
    return {RESOURCES: tensors.encode(others)} if others else {}


def complete_text(members: Members, name: str) -> str:
    """The text of a stage's member, with the constants to which it refers. Raises ModuleError MG0502 where one is missing."""
    text = unpacked(members, name)
    wanted = dict.fromkeys(_REFERENCE.findall(text))
    if not wanted:
        return text
    try:
        found = contents_by_name(members)
    except ValueError as error:
        raise damaged(members.path, str(error)) from error
    if missing := [each for each in wanted if each not in found]:
        raise damaged(members.path, f"'{name}' refers to a constant that is not in the file, {missing[0]}")
    rows = ",\n".join(f'      {each}: "0x{_ALIGNMENT}{found[each].hex().upper()}"' for each in wanted)
    return f"{text}\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{rows}\n    }}\n  }}\n#-}}\n"


def contents_by_name(members: Members) -> dict[str, Content]:
    """Return the bytes of all constants that texts and decisions may refer to. Raises ValueError for malformed members."""
    return {_content_name(content): content for content in _contents(members, members)}


def _content_name(content: Content) -> str:
    return f"sha256_{hashlib.sha256(content).hexdigest()}"


def _contents(names: Iterable[str], members: Mapping[str, memoryview] | Members) -> Iterator[Content]:
    """The bytes of each constant that may be referred to."""
    for name in names:
        if name.rpartition("/")[2] in _WITH_CONSTANTS:
            for array in tensors.decode(members[name]).values():
                if array.nbytes >= LEAST_BYTES:
                    yield tensors.content_of(array)
