"""Weights in mapped safetensors files: only the slices that ranks need are read."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from meshgen.calls.signature import input_named
from meshgen.errors import ArgumentError, Diagnostic, UsageError, system_reason
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.names import nearest_names
from meshgen.runtime.arguments import array_of
from meshgen.runtime.module_file.container import path_of
from meshgen.runtime.module_file.tensors import Tensors
from meshgen.runtime.sessions.checkpoints import Checkpoint, checkpoint_of
from meshgen.runtime.sessions.torch_files import is_archive

Array = np.ndarray[Any, Any]
Weights: TypeAlias = Mapping[str, Any] | str | Path | Sequence[str | Path] | None


class WeightFiles(Mapping[str, Array]):
    """The tensors of some safetensors files by name. They are mapped: later writes to a file are visible."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Raises UsageError MG0002 for another kind of file, and for a name in two files."""
        self._home: dict[str, Tensors] = {}
        for path in paths:
            for name in (tensors := _mapped(path)):
                if name in self._home:
                    raise UsageError(Diagnostic("MG0002", f"tensor '{name}' of '{path}' is in an earlier file as well"))
                self._home[name] = tensors

    def __getitem__(self, name: str) -> Array:
        """Raises KeyError for an unknown tensor, UsageError MG0002 for one that cannot be read."""
        try:
            return self._home[name][name]
        except ValueError as error:
            raise UsageError(Diagnostic("MG0002", f"tensor '{name}' cannot be read: {error}")) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._home)

    def __len__(self) -> int:
        return len(self._home)


def weights_by_name(given: Weights) -> Mapping[str, Any]:
    """A caller's weights: by name, or the path of a safetensors file, of several, of a folder of them, of an orbax checkpoint, or of a
    `.pt2` archive.

    Raises UsageError MG0002 for files that cannot be read, ArgumentError MG0601 for anything else.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return given
    listed: Any = given
    if isinstance(listed, list | tuple) and all(isinstance(each, str | Path) for each in cast("list[Any]", listed)):
        return WeightFiles([path_of(each) for each in cast("list[Any]", listed)])
    if not isinstance(given, str | Path):
        hint = 'give the path of a .safetensors file, or {"w": array}'
        raise ArgumentError(
            Diagnostic("MG0601", f"weights must be a dict by name, got {type(given).__name__}", hint=hint)
        )
    path = path_of(given)
    if (checkpoint := checkpoint_of(path)) is not None:
        return Checkpoint(checkpoint)
    if path.is_file() and is_archive(path):
        from meshgen.runtime.sessions.torch_archive import TorchArchive

        return TorchArchive(path).weights
    return WeightFiles(sorted(path.glob("*.safetensors")) if path.is_dir() else [path])


def fitting_weights(given: Weights, types: Mapping[str, Sequence[TensorType]]) -> dict[str, Array]:
    """The weights as arrays by input, each of a type that an input of its name has.

    Args:
        types: of all inputs, those of the same name in several entry functions.
    Raises:
        ArgumentError: MG0601, with every unknown input (and similar names), and every other type.
    """
    texts: list[str] = []
    found: dict[str, Array] = {}
    for called, value in weights_by_name(given).items():
        name = input_named(str(called), types)
        if name is None:
            near = nearest_names(str(called), types, 1)
            texts.append(f"unknown input '{called}'" + (f"; did you mean '{near[0]}'?" if near else ""))
            continue
        array, fault = array_of(name, value)
        found[name] = array
        have = fault or type_text(array)
        if fault or have not in map(str, types[name]):
            texts.append(fault or f"weight '{name}' has type {have}, but the program takes {types[name][0]}")
    if texts:
        raise ArgumentError(*(Diagnostic("MG0601", text) for text in texts))
    return found


def type_text(array: Array) -> str:
    """The type of an array, as messages have it: `f32[8,4]`."""
    try:
        return str(TensorType(array.shape, dtype_name(array.dtype)))
    except KeyError:
        return f"{array.dtype}{list(array.shape)}"


def _mapped(path: Path) -> Tensors:
    try:
        with open(path, "rb") as file:
            return Tensors(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except (OSError, ValueError) as error:
        raise UsageError(
            Diagnostic("MG0002", f"'{path}' cannot be read as safetensors: {system_reason(error)}")
        ) from error
