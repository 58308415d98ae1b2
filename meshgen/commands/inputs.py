"""The inputs of `meshgen run`: arrays of `--input` and `--weights`, and random numbers."""

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
    """Add the options for inputs."""
    parser.add_argument(
        "--input",
        metavar="[NAME=]@FILE",
        action="append",
        default=[],
        help="a .npy file with one input, or a .npz file with several; other inputs are random, but with --weights only those of NAME=random "
        "(NAME may have the wildcard *)",
    )
    parser.add_argument(
        "--weights",
        metavar="PATH",
        action="append",
        help="the parameters by name: a safetensors file (the option may be repeated), a folder of such files or its index, "
        "an orbax checkpoint, or a .pt2 file; a missing parameter is an error",
    )
    text = "ignore tensors of --weights that are not inputs of the program"
    parser.add_argument("--ignore-extra", action="store_true", help=text)


def read_inputs(texts: Sequence[str], *, mapped: bool = False) -> dict[str, Array]:
    """Return the arrays of `--input` by name.

    Args:
        mapped: memory-map the arrays, as in `load_arrays`.
    Raises:
        UsageError: MG0001 for a malformed or repeated input, MG0002 for a file that cannot be read.
    """
    inputs: dict[str, Array] = {}
    for text in texts:
        name, _, file = text.rpartition("=")
        if name and file == RANDOM:
            continue
        if not file.startswith("@"):
            hint = "write for example x=@x.npy, @all.npz, or x=random"
            raise UsageError(Diagnostic("MG0001", f"'{text}' is not NAME=@FILE", hint=hint))
        arrays = load_arrays(file[1:], mapped=mapped)
        arrays = {name: _array_called(arrays, name, file[1:])} if name else arrays
        if duplicates := [f"'{repeated}'" for repeated in arrays if repeated in inputs]:
            raise UsageError(
                Diagnostic("MG0001", f"--input gives {listed(duplicates)} twice", hint="give each input once")
            )
        inputs |= arrays
    return inputs


def _array_called(arrays: Mapping[str, Array], name: str, file: str) -> Array:
    """Return the array called `name`, or the only array of the file.

    Raises:
        UsageError: MG0002 if the file has several arrays and none has the name.
    """
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    if name in arrays:
        return arrays[name]
    hint = f"it has {', '.join(arrays) or 'none'}"
    raise UsageError(Diagnostic("MG0002", f"'{file}' has no array '{name}'", hint=hint))


def input_arrays(
    module: LoadedModule, explicit_arrays: Mapping[str, Array], options: argparse.Namespace, output: Output
) -> dict[str, Array]:
    """Return an array for every input, from --input, from --weights, or random.

    Raises:
        ArgumentError: MG0601 for unknown inputs, or for arrays that do not match the type of their input.
        UsageError: MG0002 for files that cannot be read.
    """
    names = [b.name for b in module.inputs]
    if unknown := [name for name in explicit_arrays if name not in names]:
        hint = f"the inputs are {', '.join(names)}"
        raise ArgumentError(*(Diagnostic("MG0601", f"unknown input '{name}'", hint=hint) for name in unknown))
    arrays = {
        b.name: _with_element_type(explicit_arrays[b.name], b.type) for b in module.inputs if b.name in explicit_arrays
    }
    patterns = random_inputs(options.input)
    if unmatched := [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]:
        text = f"--input {unmatched[0]}=random names no input"
        raise UsageError(Diagnostic("MG0001", text, hint=f"the inputs are {', '.join(names)}"))
    if options.weights:
        arrays = _weights(module, options, {*arrays}) | arrays
        if random_names := [f"'{name}'" for name in names if name not in arrays]:
            output.note(f"note: random numbers for {listed(random_names)}: neither --weights nor --input gives them")
    return {b.name: random_array(b.type, [options.seed, i]) for i, b in enumerate(module.inputs)} | arrays


def _weights(module: LoadedModule, options: argparse.Namespace, explicit_inputs: Collection[str]) -> dict[str, Array]:
    """Return the arrays of `--weights` by input. If the program marks its parameters, the files must provide all of
    them. Otherwise, if the files provide a leaf of an argument structure, they must provide all leaves of it. In any
    other program they must provide every input.

    Raises:
        UsageError: MG0002 for files that cannot be read.
        ArgumentError: MG0601 for missing weights, or weights that do not match the type of their input.
    """
    inputs = WeightArguments({b.name: (b.type,) for b in module.inputs}, [module.call])
    patterns = random_inputs(options.input)

    def missing(filled: Collection[str]) -> list[str]:
        structures = inputs.structures
        leaves = [name for group in structures for name in group]
        has_leaf = any(name in filled for name in leaves)
        names = inputs.parameters or (leaves if has_leaf else [*inputs.types])
        has_value = {
            *filled,
            *explicit_inputs,
            *(name for pattern in patterns for name in fnmatch.filter(names, pattern)),
        }
        return [name for name in names if name not in has_value]

    paths = options.weights
    hint = "add the tensors to the file, or give --input NAME=@FILE; --input NAME=random asks for random numbers"
    return fitting_weights(
        paths[0] if len(paths) == 1 else paths, inputs, ignore_extra=options.ignore_extra, missing=missing, hint=hint
    )


def random_inputs(texts: Sequence[str]) -> list[str]:
    """Return the name patterns of the inputs for which `--input NAME=random` requests random numbers."""
    return [name for name, _, value in (text.rpartition("=") for text in texts) if name and value == RANDOM]


def _with_element_type(array: Array, input_type: TensorType) -> Array:
    """View an array of raw bytes as the element type of its input. Files store bf16 and 8-bit floats as raw bytes."""
    if is_raw(array) and array.dtype.itemsize == input_type.numpy_dtype.itemsize:
        return array.view(input_type.numpy_dtype)
    return array
