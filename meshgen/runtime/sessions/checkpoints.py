"""Weights in an orbax checkpoint: a folder with `_METADATA` and an array store, read with the library tensorstore.

Tensors are named by their keys joined with dots, such as `params.h.0.w`. Each tensor is read on access.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.budget import memory_fault, read_file
from meshgen.errors import Diagnostic, MissingError, UsageError
from meshgen.packages import install
from meshgen.runtime.module_file.json_values import get, read_flag, read_json, read_list, read_table, read_text

Array = np.ndarray[Any, Any]
METADATA = "_METADATA"
# pattern of the name of a step's folder: the step number, optionally after a prefix
_STEP = re.compile(r"(?:.*_)?(\d+)")
# largest size of the metadata in bytes (chosen: an array's entry has a few hundred, so this is enough for a million
# arrays)
_MOST_METADATA = 1 << 28
# types of values that orbax stores as arrays; values of other types are ignored
_ARRAYS = ("np.ndarray", "jax.Array", "scalar")


def checkpoint_of(folder: Path) -> Path | None:
    """Return the folder that contains the arrays of a checkpoint, or None if `folder` is not a checkpoint.

    `folder` may be a checkpoint, a step, or the folder of a checkpoint manager, whose newest step is used.
    """
    if (arrays_folder := _arrays_of_step(folder)) is not None or not folder.is_dir():
        return arrays_folder
    steps = [
        (int(match[1]), arrays)
        for child in folder.iterdir()
        if (match := _STEP.fullmatch(child.name)) and (arrays := _arrays_of_step(child))
    ]
    return max(steps)[1] if steps else None


def _arrays_of_step(folder: Path) -> Path | None:
    """Return the folder that contains the arrays of a step, or None if there is none.

    This is the step's folder itself, or its item `default` or `state`, or its only item with arrays.
    """
    candidates = (folder, folder / "default", folder / "state")
    if (
        arrays_folder := next((candidate for candidate in candidates if (candidate / METADATA).is_file()), None)
    ) is not None:
        return arrays_folder
    items = [path.parent for path in folder.glob(f"*/{METADATA}") if not _STEP.fullmatch(path.parent.name)]
    return items[0] if len(items) == 1 else None


class Checkpoint(Mapping[str, Array]):
    """A mapping from names to the arrays of a checkpoint."""

    def __init__(self, folder: Path) -> None:
        """Open a checkpoint.

        Raises MissingError MG0602 without tensorstore, and UsageError MG0002 if the metadata cannot be read.
        """
        self._folder = folder.resolve()
        try:
            self._library: Any = import_module("tensorstore")
        except ModuleNotFoundError as error:
            hint = f"{install('orbax')}, or convert it to safetensors"
            text = f"'{folder}' is an orbax checkpoint, but the Python package 'tensorstore' is not installed"
            raise MissingError(Diagnostic("MG0602", text, hint=hint)) from error
        try:
            metadata = read_table(read_json(read_file(folder / METADATA, _MOST_METADATA)))
            self._names = get(metadata, "tree_metadata", _names)
            self._is_one_store, is_zarr3 = (get(metadata, name, read_flag) for name in ("use_ocdbt", "use_zarr3"))
        except (OSError, ValueError, json.JSONDecodeError) as error:
            raise UsageError(Diagnostic("MG0002", f"'{folder}' cannot be read as a checkpoint: {error}")) from error
        self._driver = "zarr3" if is_zarr3 else "zarr"

    def __getitem__(self, name: str) -> Array:
        """Read an array. Raises KeyError if it is unknown, UsageError MG0002 if it cannot be read."""
        if name not in self._names:
            raise KeyError(name)
        if ".." in name.split("/"):
            raise UsageError(Diagnostic("MG0002", f"array '{name}' is not in the folder '{self._folder}'"))
        store = {"driver": "file", "path": f"{self._folder}/{name}/"}
        if self._is_one_store:
            store = {"driver": "ocdbt", "base": f"file://{self._folder}/", "path": f"{name}/"}
        try:
            opened = self._library.open({"driver": self._driver, "kvstore": store}, open=True, read=True).result()
            if fault := memory_fault(_read_bytes(opened), f"array '{name}'"):
                raise ValueError(fault)
            return np.asarray(opened.read().result())
        except ValueError as error:
            raise UsageError(
                Diagnostic("MG0002", f"array '{name}' of '{self._folder}' cannot be read: {error}")
            ) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _read_bytes(opened: Any) -> int:
    """Return the memory in bytes that reading an array takes: the array and one decoded chunk."""
    elements = prod(opened.shape) + prod(opened.chunk_layout.read_chunk.shape or ())
    return elements * opened.dtype.numpy_dtype.itemsize


def _names(value: Any) -> dict[str, None]:
    return dict.fromkeys(name for entry in read_table(value).values() for name in _array_names(entry))


def _array_names(entry: Any) -> Iterator[str]:
    """Yield the name of a metadata entry if the entry describes an array."""
    value_type = get(entry, "value_metadata", lambda table: get(table, "value_type", read_text))
    keys = get(entry, "key_metadata", lambda keys: read_list(keys, lambda key: str(get(key, "key", lambda text: text))))
    if value_type in _ARRAYS:
        yield ".".join(keys)
