"""The inputs of `meshgen run`: of `--input`, of `--weights`, and random numbers."""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Collection, Mapping, Sequence

from meshgen.commands.arrays import Array, is_raw, load_arrays
from meshgen.commands.output import Output
from meshgen.errors import ArgumentError, Diagnostic, UsageError, listed
from meshgen.ir.graph import TensorType
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.random_arrays import random_array
from meshgen.runtime.sessions.weights import WeightArguments, fitting_weights

RANDOM = "random"


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options of the inputs."""
    parser.add_argument(
        "--input",
        metavar="[NAME=]@FILE",
        action="append",
        default=[],
        help="a .npy for one input, or a .npz with several; without --weights the rest is random, with them NAME=random says so "
        "(* matches names)",
    )
    parser.add_argument(
        "--weights",
        metavar="PATH",
        action="append",
        help="the parameters, by name: a safetensors file (several times for several), a folder of them or its index, "
        "an orbax checkpoint, or a .pt2 file; what it lacks is refused",
    )
    text = "leave out tensors of --weights that the program does not take"
    parser.add_argument("--ignore-extra", action="store_true", help=text)


def read_inputs(texts: Sequence[str], *, mapped: bool = False) -> dict[str, Array]:
    """The arrays of `--input`, by name; `mapped` as of `load_arrays`. Raises UsageError."""
    given: dict[str, Array] = {}
    for text in texts:
        name, _, file = text.rpartition("=")
        if name and file == RANDOM:
            continue
        if not file.startswith("@"):
            hint = "write for example x=@x.npy, @all.npz, or x=random"
            raise UsageError(Diagnostic("MG0001", f"'{text}' is not NAME=@FILE", hint=hint))
        arrays = load_arrays(file[1:], mapped=mapped)
        arrays = {name: _one_of(arrays, name, file[1:])} if name else arrays
        if twice := [f"'{each}'" for each in arrays if each in given]:
            raise UsageError(Diagnostic("MG0001", f"--input gives {listed(twice)} twice", hint="give each input once"))
        given |= arrays
    return given


def _one_of(arrays: Mapping[str, Array], name: str, file: str) -> Array:
    """The only array of a file, or the one of that name. Raises UsageError MG0002."""
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    if name in arrays:
        return arrays[name]
    hint = f"it has {', '.join(arrays) or 'none'}"
    raise UsageError(Diagnostic("MG0002", f"'{file}' has no array '{name}'", hint=hint))


def input_arrays(
    module: LoadedModule, given: Mapping[str, Array], options: argparse.Namespace, output: Output
) -> dict[str, Array]:
    """Return arrays for every input: of --input, of --weights, and random ones. Raises ArgumentError, and UsageError MG0002."""
    names = [b.name for b in module.inputs]
    if unknown := [name for name in given if name not in names]:
        hint = f"the inputs are {', '.join(names)}"
        raise ArgumentError(*(Diagnostic("MG0601", f"unknown input '{name}'", hint=hint) for name in unknown))
    found = {b.name: _reinterpreted(given[b.name], b.type) for b in module.inputs if b.name in given}
    patterns = random_inputs(options.input)
    if unmatched := [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]:
        text = f"--input {unmatched[0]}=random names no input"
        raise UsageError(Diagnostic("MG0001", text, hint=f"the inputs are {', '.join(names)}"))
    if options.weights:
        found = _weights(module, options, {*found}) | found
        if left := [f"'{name}'" for name in names if name not in found]:
            output.note(f"note: random numbers for {listed(left)}: neither --weights nor --input gives them")
    return {b.name: random_array(b.type, [options.seed, i]) for i, b in enumerate(module.inputs)} | found


def _weights(module: LoadedModule, options: argparse.Namespace, given: Collection[str]) -> dict[str, Array]:
    """Return the arrays of `--weights` by input.

    What the file lacks is refused: parameters, where the program says which inputs they are; else leaves of structures, where the
    file fills one; else every input. Raises UsageError MG0002 for files that cannot be read, ArgumentError MG0601.
    """
    inputs = WeightArguments({b.name: (b.type,) for b in module.inputs}, [module.call])
    patterns = random_inputs(options.input)

    def missing(filled: Collection[str]) -> list[str]:
        structures = inputs.structures
        leaves = [name for group in structures for name in group]
        begun = any(name in filled for name in leaves)
        names = inputs.parameters or (leaves if begun else [*inputs.types])
        has_value = {*filled, *given, *(name for each in patterns for name in fnmatch.filter(names, each))}
        return [name for name in names if name not in has_value]

    paths = options.weights
    hint = "add the tensors to the file, or give --input NAME=@FILE; --input NAME=random asks for random numbers"
    return fitting_weights(
        paths[0] if len(paths) == 1 else paths, inputs, ignore_extra=options.ignore_extra, missing=missing, hint=hint
    )


def random_inputs(texts: Sequence[str]) -> list[str]:
    """The patterns of inputs for which `--input NAME=random` asks."""
    return [name for name, _, value in (text.rpartition("=") for text in texts) if name and value == RANDOM]


def _reinterpreted(array: Array, kind: TensorType) -> Array:
    """Files hold bf16 and 8-bit floats as plain bytes: give them their type back."""
    if is_raw(array) and array.dtype.itemsize == kind.numpy_dtype.itemsize:
        return array.view(kind.numpy_dtype)
    return array
