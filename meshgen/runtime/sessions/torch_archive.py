"""Tensors in a `.pt2` archive of `torch.export.save` (torch 2.9 and later), which is a zip file. Read without torch.

models/model.json                           the program: graph, signature and metadata in torch's export schema
data/weights/model_weights_config.json      parameters and buffers by name: file, type, sizes and strides
data/constants/model_constants_config.json  the same for other tensors of the program
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from meshgen.budget import memory_fault
from meshgen.errors import Diagnostic, UsageError, system_reason
from meshgen.ir.graph import DTYPES
from meshgen.runtime.archives import member_bytes, open_zip
from meshgen.runtime.module_file.json_values import read_json

Array = np.ndarray[Any, Any]
# Element types by their number in the schema (torch/_export/serde/schema.py, ScalarType).
SCALAR_TYPES = {
    1: "ui8", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 6: "f16", 7: "f32", 8: "f64", 10: "c64", 11: "c128", 12: "i1", 13: "bf16",
    28: "ui16", 29: "f8E4M3FN", 30: "f8E5M2", 31: "f8E4M3FNUZ", 32: "f8E5M2FNUZ",
}  # fmt: skip
SCHEMA = 8  # the major schema version that torch 2.9 and later write


class TorchArchive:
    """The program and the tensors of an archive, from a path or an open file. Each tensor is read on access."""

    def __init__(self, source: Path | IO[bytes]) -> None:
        """Open an archive. Raises UsageError MG0002 if the source is not such an archive, or has several programs."""
        self._name = str(source) if isinstance(source, Path) else "the archive"
        try:
            self._zip = open_zip(source)
        except (OSError, ValueError) as error:
            raise self.fault(system_reason(error)) from error
        self._members = {name.partition("/")[2]: name for name in self._zip.namelist()}
        models = [member for member in self._members if member.startswith("models/") and member.endswith(".json")]
        if len(models) != 1:
            raise self.fault(f"it has {len(models)} programs in models/, not one; torch.export.save of torch 2.9 and later writes one")  # fmt: skip
        self._model = models[0].removeprefix("models/").removesuffix(".json")

    @cached_property
    def program(self) -> dict[str, Any]:
        """Return the JSON document of the program. Raises UsageError MG0002 for an unsupported schema version."""
        document = self._json(f"models/{self._model}.json")
        version = document.get("schema_version")
        version = version if isinstance(version, dict) else {}
        if version.get("major") != SCHEMA:
            written = (
                f"torch {document.get('torch_version', '?')}, schema {version.get('major')}.{version.get('minor')}"
            )
            raise self.fault(f"it was written by {written}; schema {SCHEMA} is read, which torch 2.9 and later write")
        return document

    @cached_property
    def weights(self) -> Mapping[str, Array]:
        """Return parameters and buffers by their names in the model."""
        return _Tensors(self, "data/weights/", self._config("data/weights/", "weights"))

    @cached_property
    def ties(self) -> dict[str, str]:
        """Return the weights that share the tensor of an earlier weight, mapped to the earlier weight's name."""
        first_names: dict[str, str] = {}
        ties: dict[str, str] = {}
        for name, entry in self._config("data/weights/", "weights").items():
            meta = entry.get("tensor_meta") or {}
            tensor_key = repr(
                (entry.get("path_name"), *(meta.get(key) for key in ("dtype", "sizes", "strides", "storage_offset")))
            )
            first_name = first_names.setdefault(tensor_key, name)
            ties |= {name: first_name} if first_name != name else {}
        return ties

    @cached_property
    def constants(self) -> Mapping[str, Array]:
        """Return the tensors of the program that are neither parameters nor persistent buffers, by name."""
        return _Tensors(self, "data/constants/", self._config("data/constants/", "constants"))

    def read(self, member: str) -> bytes:
        """Return the bytes of a member.

        Raises UsageError MG0002 if it is missing or damaged, or does not fit into memory.
        """
        if member not in self._members:
            raise self.fault(f"{member} cannot be read: it is missing")
        try:
            return member_bytes(self._zip, self._zip.getinfo(self._members[member]))
        except (OSError, ValueError) as error:
            raise self.fault(f"{member} cannot be read: {system_reason(error)}") from error

    def _config(self, folder: str, section: str) -> dict[str, Any]:
        return self._json(f"{folder}{self._model}_{section}_config.json").get("config", {})

    def _json(self, member: str) -> dict[str, Any]:
        try:
            document: Any = read_json(self.read(member))
        except ValueError as error:
            raise self.fault(f"{member} is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise self.fault(f"{member} is not an object of JSON")
        return document

    def fault(self, reason: Any) -> UsageError:
        """Return the error MG0002, which says why the archive cannot be read."""
        return UsageError(Diagnostic("MG0002", f"'{self._name}' cannot be read as a .pt2 archive: {reason}"))


class _Tensors(Mapping[str, Array]):
    """A mapping from names to the tensors of an archive."""

    def __init__(self, archive: TorchArchive, folder: str, config: Mapping[str, Any]) -> None:
        self._archive, self._folder, self._config = archive, folder, config

    def __getitem__(self, name: str) -> Array:
        """Read a tensor.

        Raises KeyError if it is unknown, UsageError MG0002 if it was pickled or does not match its bytes.
        """
        entry = self._config[name]
        try:
            meta = entry["tensor_meta"]
            if entry["use_pickle"] or meta is None:
                text = f"'{name}' is pickled in the archive, and pickles are not read"
                raise UsageError(Diagnostic("MG0002", text, hint="save a program whose weights are plain tensors"))
            return strided(name, self._archive.read(self._folder + entry["path_name"]), meta)
        except (LookupError, TypeError, ValueError) as error:
            raise self._archive.fault(f"the entry of '{name}' is malformed") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._config)

    def __len__(self) -> int:
        return len(self._config)


def strided(name: str, content: bytes, meta: Mapping[str, Any]) -> Array:
    """Return the tensor that `meta` describes within the bytes of a storage. Several tensors may share a storage.

    Raises UsageError MG0002 if the tensor exceeds its storage or does not fit into memory. A stride of 0 repeats
    elements, so a tensor can be larger than its storage.
    """
    sizes, strides = ([entry["as_int"] for entry in meta[field]] for field in ("sizes", "strides"))
    offset = meta["storage_offset"]["as_int"]
    dtype = DTYPES.get(SCALAR_TYPES.get(meta["dtype"], ""))
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if dtype is None or min([offset, *sizes, *strides]) < 0 or (0 not in sizes and (last + 1) * dtype.itemsize > len(content)):  # fmt: skip
        text = f"'{name}' has {len(content)} bytes in the archive, which do not hold its elements"
        raise UsageError(Diagnostic("MG0002", text, hint="a program on the meta device has no weights"))
    if fault := memory_fault(prod(sizes) * dtype.itemsize, f"'{name}'"):
        raise UsageError(Diagnostic("MG0002", fault))
    if 0 in sizes:
        return np.zeros(sizes, dtype)
    flat = np.frombuffer(content, dtype, len(content) // dtype.itemsize)[offset:]
    steps = [stride * dtype.itemsize for stride in strides]
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, sizes, steps, writeable=False)).reshape(sizes)
