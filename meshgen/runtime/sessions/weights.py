"""Weights by name, from files or dicts.

Safetensors files are memory-mapped, so only the slices that ranks need are read.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from meshgen.budget import read_file, regular_size
from meshgen.calls.argument_tree import Branch, Slot, slots_of
from meshgen.calls.arrays import same_array
from meshgen.calls.signature import Signature, input_named
from meshgen.errors import ArgumentError, Diagnostic, UsageError, listed, system_reason
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.names import nearest_names
from meshgen.runtime.arguments import array_of
from meshgen.runtime.module_file.container import path_of
from meshgen.runtime.module_file.json_values import get, read_json, read_name, read_table
from meshgen.runtime.module_file.tensors import Tensors
from meshgen.runtime.sessions.checkpoints import Checkpoint, checkpoint_of
from meshgen.runtime.sessions.torch_files import is_archive

Array = np.ndarray[Any, Any]
Weights: TypeAlias = Mapping[str, Any] | str | Path | Sequence[str | Path] | None
SUFFIX = ".safetensors"
# suffix of the JSON file that maps each tensor name to the file that contains the tensor
INDEX = f"{SUFFIX}.index.json"
# largest size of an index in bytes (chosen: a tensor takes about a hundred, so this is enough for two million tensors)
MOST_INDEX = 1 << 28
MOST_LISTED = 20  # most names in a message (chosen: fits on a screen)


class WeightFiles(Mapping[str, Array]):
    """A mapping from names to the tensors of several safetensors files.

    The files are memory-mapped, so later writes to them are visible.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        """Map the files. Raises UsageError MG0002 for another kind of file, and for a tensor name in two files."""
        self._home: dict[str, Tensors] = {}
        for path in paths:
            for name in (tensors := _mapped(path)):
                if name in self._home:
                    raise UsageError(Diagnostic("MG0002", f"tensor '{name}' of '{path}' is in an earlier file as well"))
                self._home[name] = tensors

    def __getitem__(self, name: str) -> Array:
        """Return a tensor. Raises KeyError if it is unknown, UsageError MG0002 if it cannot be read."""
        try:
            return self._home[name][name]
        except ValueError as error:
            raise UsageError(Diagnostic("MG0002", f"tensor '{name}' cannot be read: {error}")) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._home)

    def __len__(self) -> int:
        return len(self._home)


def weights_by_name(weights: Weights) -> Mapping[str, Any]:
    """Return a caller's weights as a mapping by name.

    Args:
        weights: a mapping by name, or the path of a safetensors file, a folder of such files, their index, an orbax
            checkpoint or a `.pt2` archive, or a list of paths of safetensors files.
    Raises:
        UsageError: MG0002, a file cannot be read.
        ArgumentError: MG0601, `weights` is anything else.
    """
    if weights is None:
        return {}
    if isinstance(weights, Mapping):
        return weights
    paths: Any = weights
    if isinstance(paths, list | tuple) and all(isinstance(item, str | Path) for item in cast("list[Any]", paths)):
        return WeightFiles([path_of(item) for item in cast("list[Any]", paths)])
    if not isinstance(weights, str | Path):
        hint = 'give the path of a .safetensors file, or {"w": array}'
        raise ArgumentError(
            Diagnostic("MG0601", f"weights must be a dict by name, got {type(weights).__name__}", hint=hint)
        )
    path = path_of(weights)
    if (checkpoint := checkpoint_of(path)) is not None:
        return Checkpoint(checkpoint)
    if path.is_file() and is_archive(path):
        from meshgen.runtime.sessions.torch_archive import TorchArchive

        return TorchArchive(path).weights
    indexes = sorted(path.glob(f"*{INDEX}")) if path.is_dir() else [path] if path.name.endswith(INDEX) else []
    if len(indexes) == 1:
        return WeightFiles(_indexed_files(indexes[0]))
    return WeightFiles(sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path])


def _indexed_files(index: Path) -> list[Path]:
    """Return the files that the index of a multi-file checkpoint names. Raises UsageError MG0002 for a malformed index."""
    try:
        table = get(read_table(read_json(read_file(index, MOST_INDEX))), "weight_map", read_table)
        names = {name: read_name(value) for name, value in table.items()}
        if outside := [name for name in names.values() if Path(name).name != name or Path(name).suffix != SUFFIX]:
            raise ValueError(f"'{outside[0]}' is not the name of a {SUFFIX} file beside it")
    except (OSError, ValueError) as error:
        text = f"'{index}' cannot be read as an index of safetensors files: {system_reason(error)}"
        raise UsageError(Diagnostic("MG0002", text)) from error
    return [index.with_name(name) for name in sorted({*names.values()})]


class WeightArguments:
    """The inputs of a module's entry functions, with lookup by the names of weights."""

    def __init__(self, types: Mapping[str, Sequence[TensorType]], calls: Iterable[Signature | None]) -> None:
        """`types` has all types of each input.

        An input has several if entry functions use its name with different types.
        """
        self.types = types
        self._calls = [call for call in calls if call is not None]

    def named(self, tensor: str) -> str | None:
        """Return the name of the input to which the weight `tensor` belongs.

        Returns:
            None for an unknown tensor, and an empty name for an argument that the program does not use.
        """
        for call in self._calls:
            node = call.weight(tensor)
            if isinstance(node, Slot) and (node.number is None or node.name in self.types):
                return "" if node.number is None else node.name
        return input_named(tensor, self.types)

    @property
    def parameters(self) -> list[str]:
        """Return the names of the inputs that are parameters or buffers of a model, if call signatures identify them."""
        names = (name for call in self._calls for name in call.weight_names)
        return [name for name in dict.fromkeys(names) if name in self.types]

    @property
    def structures(self) -> list[list[str]]:
        """Return one list per structured argument: the names of the inputs that are leaves of the argument."""
        nodes = (node for call in self._calls for node in call.nodes.values() if isinstance(node, Branch))
        return [[slot.name for slot in slots_of(node) if slot.name in self.types] for node in nodes]


def fitting_weights(
    weights: Weights, arguments: WeightArguments, *, ignore_extra: bool = False,
    missing: Callable[[Collection[str]], Sequence[str]] | None = None, hint: str = "",
) -> dict[str, Array]:  # fmt: skip
    """Return the weights as arrays by input name, after checking their types.

    Args:
        ignore_extra: ignore tensors that the program does not use.
        missing: returns the inputs that still lack a value, given the names of the inputs that have weights.
        hint: advice in the error message about missing inputs.
    Raises:
        ArgumentError: MG0601, lists each unused tensor (with similar names), missing input and type mismatch.
        UsageError: MG0002, a file cannot be read.
    """
    faults: list[Diagnostic] = []
    extra: list[str] = []
    arrays: dict[str, Array] = {}
    for called, value in weights_by_name(weights).items():
        name = arguments.named(str(called))
        if name is None:
            extra.append(str(called))
        if not name:
            continue
        array, fault = array_of(name, value)
        if name in arrays and not same_array(arrays[name], array):
            fault = f"several tensors are for '{name}', and they differ: one of them is '{called}'"
        arrays[name] = array
        if not fault and type_text(array) not in map(str, arguments.types[name]):
            fault = f"weight '{name}' has type {type_text(array)}, but the program takes {arguments.types[name][0]}"
        faults += [Diagnostic("MG0601", fault)] if fault else []
    faults += _missing_faults(_holder(weights), arguments, missing(arrays) if missing else (), hint)
    faults += _extra_faults(_holder(weights), arguments, () if ignore_extra else extra)
    if faults:
        raise ArgumentError(*faults)
    return arrays


def _missing_faults(holder: str, arguments: WeightArguments, missing: Sequence[str], hint: str) -> list[Diagnostic]:
    """Return an error for the inputs without a value, or no error if `missing` is empty."""
    if not missing:
        return []
    named = [f"'{name}' ({arguments.types[name][0]})" for name in missing]
    return [Diagnostic("MG0601", f"{holder} no value for {listed(named, MOST_LISTED)}", hint=hint)]


def _extra_faults(holder: str, arguments: WeightArguments, extra: Sequence[str]) -> list[Diagnostic]:
    """Return an error for the tensors that the program does not use, or no error if `extra` is empty."""
    if not extra:
        return []
    near = [nearest_names(name, arguments.types, 1) for name in extra[:MOST_LISTED]]
    named = [
        f"'{name}'" + f" (did you mean '{''.join(similar)}'?)" * len(similar)
        for name, similar in zip(extra, near, strict=False)
    ]
    text = f"{holder} tensors that the program does not take: {listed([*named, *extra[MOST_LISTED:]], MOST_LISTED)}"
    hint = "to leave them out, give --ignore-extra on the command line, or ignore_extra=True to a session"
    return [Diagnostic("MG0601", text, hint=hint)]


def _holder(weights: Weights) -> str:
    """Return the start of a sentence about the tensors, with subject and verb, such as "the weights have"."""
    if weights is None or isinstance(weights, Mapping):
        return "the weights have"
    if isinstance(weights, str | Path):
        return f"'{weights}' has"
    names = [f"'{path}'" for path in weights]
    return f"{listed(names)} have"


def type_text(array: Array) -> str:
    """Format the type of an array for messages, for example as `f32[8,4]`."""
    try:
        return str(TensorType(array.shape, dtype_name(array.dtype)))
    except KeyError:
        return f"{array.dtype}{list(array.shape)}"


def _mapped(path: Path) -> Tensors:
    try:
        regular_size(path)
        with open(path, "rb") as file:
            return Tensors(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except (OSError, ValueError) as error:
        raise UsageError(
            Diagnostic("MG0002", f"'{path}' cannot be read as safetensors: {system_reason(error)}")
        ) from error
