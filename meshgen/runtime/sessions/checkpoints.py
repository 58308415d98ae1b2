"""Weights in an orbax checkpoint: a folder with `_METADATA` and an array store, read with the library tensorstore.

Tensors are named by their keys, `params.h.0.w`, and read when they are asked for.
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
from meshgen.runtime.module_file.json_values import each_of, get, read_flag, read_json, read_table, read_text

Array = np.ndarray[Any, Any]
METADATA = "_METADATA"
_STEP = re.compile(r"(?:.*_)?(\d+)")  # of a step's folder: its number, which may follow a prefix
_MOST_METADATA = 1 << 28  # bytes: an entry of an array has a few hundred
_ARRAYS = ("np.ndarray", "jax.Array", "scalar")  # kinds of values; others hold no numbers


def checkpoint_of(folder: Path) -> Path | None:
    """Return the folder of the arrays in a checkpoint, in a step, or in the newest step of a checkpoint manager's folder.

    Returns:
        None where the folder is none of these.
    """
    if (found := _arrays_of_step(folder)) is not None or not folder.is_dir():
        return found
    steps = [
        (int(match[1]), arrays)
        for each in folder.iterdir()
        if (match := _STEP.fullmatch(each.name)) and (arrays := _arrays_of_step(each))
    ]
    return max(steps)[1] if steps else None


def _arrays_of_step(folder: Path) -> Path | None:
    """Return a folder that has arrays itself, or its item with arrays: `default`, `state`, or the only one; None if there is none."""
    places = (folder, folder / "default", folder / "state")
    if (found := next((place for place in places if (place / METADATA).is_file()), None)) is not None:
        return found
    items = [path.parent for path in folder.glob(f"*/{METADATA}") if not _STEP.fullmatch(path.parent.name)]
    return items[0] if len(items) == 1 else None


class Checkpoint(Mapping[str, Array]):
    """The arrays of a checkpoint by name."""

    def __init__(self, folder: Path) -> None:
        """Raises MissingError MG0602 without tensorstore, UsageError MG0002 where the metadata cannot be read."""
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
        """Raises KeyError for an unknown array, UsageError MG0002 for one that cannot be read."""
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
    """Return the bytes of a store's array and of the largest chunk, which is unpacked whole."""
    elements = prod(opened.shape) + prod(opened.chunk_layout.read_chunk.shape or ())
    return elements * opened.dtype.numpy_dtype.itemsize


def _names(value: Any) -> dict[str, None]:
    return dict.fromkeys(name for row in read_table(value).values() for name in _array_names(row))


def _array_names(row: Any) -> Iterator[str]:
    """The name of an entry, if it is an array."""
    kind = get(row, "value_metadata", lambda table: get(table, "value_type", read_text))
    keys = get(row, "key_metadata", lambda keys: each_of(keys, lambda key: str(get(key, "key", lambda text: text))))
    if kind in _ARRAYS:
        yield ".".join(keys)
