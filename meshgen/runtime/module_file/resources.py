"""Large constants of stage texts. The file stores their bytes once, and the texts refer to them by digest.

    %0 = stablehlo.constant dense_resource<sha256_9f86...> : tensor<4096x4096xf32>

Most of them are constants of the plan, which are stored in `constants.safetensors` anyway. Constants that only earlier
stages have are stored in `resources.safetensors`. A text that is extracted from a module gets MLIR's resource section
appended, so that it is a complete program.
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
# size in bytes of the smallest constant that is stored as a resource (chosen: its overhead, a reference and a tensor
# header, is a tenth of that)
LEAST_BYTES = 1024
_WITH_CONSTANTS = ("constants.safetensors", RESOURCES)
_REFERENCE = re.compile(r"\bdense_resource<(sha256_[0-9a-f]{64})>")
# the alignment that MLIR writes before the bytes of a resource: 64, as 32 little-endian bits in hexadecimal
_ALIGNMENT = "40000000"
Content = bytes | memoryview


class Resources:
    """The large constants to which the stage texts of one program refer, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Content] = {}
        # (address, size) -> (content, name); the stored content prevents reuse of the address
        self._names: dict[tuple[int, int], tuple[Content, str]] = {}

    def name(self, content: Content) -> str:
        """Return the name under which stage texts refer to a constant with this content, and record the content.

        Stages share arrays, so the digest of each array is computed only once.
        """
        address_and_size = np.frombuffer(content, np.uint8).ctypes.data, len(content)
        if address_and_size not in self._names:
            self._names[address_and_size] = content, _content_name(content)
            self.by_name.setdefault(self._names[address_and_size][1], content)
        return self._names[address_and_size][1]


def resource_members(resources: Mapping[str, Content], members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the member with the resources that `members` does not store as constants, or {} if it stores all of them."""
    stored_names = set(
        map(_content_name, _contents(members, {name: memoryview(content) for name, content in members.items()}))
    )
    unstored_arrays = {
        name: np.frombuffer(content, np.uint8) for name, content in resources.items() if name not in stored_names
    }
    return {RESOURCES: tensors.encode(unstored_arrays)} if unstored_arrays else {}


def complete_text(members: Members, name: str) -> str:
    """Return the text of a stage, followed by the constants to which it refers.

    Raises ModuleError MG0502 if a constant is missing.
    """
    text = unpacked(members, name)
    references = dict.fromkeys(_REFERENCE.findall(text))
    if not references:
        return text
    try:
        contents = contents_by_name(members)
    except ValueError as error:
        raise damaged(members.path, str(error)) from error
    if missing := [reference for reference in references if reference not in contents]:
        raise damaged(members.path, f"'{name}' refers to a constant that is not in the file, {missing[0]}")
    entries = ",\n".join(
        f'      {reference}: "0x{_ALIGNMENT}{contents[reference].hex().upper()}"' for reference in references
    )
    return f"{text}\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{entries}\n    }}\n  }}\n#-}}\n"


def contents_by_name(members: Members) -> dict[str, Content]:
    """Return the bytes of all constants to which stage texts and decisions may refer, by name.

    Raises ValueError for malformed members.
    """
    return {_content_name(content): content for content in _contents(members, members)}


def _content_name(content: Content) -> str:
    return f"sha256_{hashlib.sha256(content).hexdigest()}"


def _contents(names: Iterable[str], members: Mapping[str, memoryview] | Members) -> Iterator[Content]:
    """Yield the bytes of each constant in `members` that is large enough to be a resource."""
    for name in names:
        if name.rpartition("/")[2] in _WITH_CONSTANTS:
            for array in tensors.decode(members[name]).values():
                if array.nbytes >= LEAST_BYTES:
                    yield tensors.content_of(array)
