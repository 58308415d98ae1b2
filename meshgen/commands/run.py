"""`meshgen run OUT.mgx`: run a module on all its ranks. Needs neither xDSL nor Triton on the reference device."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.commands.common import Array, Output, load_arrays
from meshgen.errors import ArgumentError, Diagnostic, MissingError, NumbersDiffer, UsageError
from meshgen.ir.graph import TensorType, is_float
from meshgen.runtime.module import DEVICES, LoadedModule, load
from meshgen.tables import table_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="OUT.mgx")
    parser.add_argument(
        "--device",
        choices=DEVICES,
        default="reference",
        help="NumPy, the module's Triton kernels on the CPU, or GPUs (default: %(default)s)",
    )
    parser.add_argument(
        "--devices", type=int, metavar="N", help="devices to run on; the module's mesh must have as many"
    )
    parser.add_argument(
        "--input",
        metavar="[NAME=]@FILE",
        action="append",
        default=[],
        help="a .npy for one input, or a .npz with several; the rest is random",
    )
    parser.add_argument("--output", metavar="FILE.npz", help="write the results here, by name")
    parser.add_argument("--expect", metavar="REF.npz", help="compare with these results, by name or in order")
    parser.add_argument(
        "--tolerance",
        type=float,
        help="largest error relative to the largest expected value (default: half of the digits of the type)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (default: %(default)s)")


def run(options: argparse.Namespace, output: Output) -> int:
    module = load(options.module)
    if options.devices is not None and options.devices != module.mesh.size:
        _refuse_devices(options.devices, module)
    expected = load_arrays(options.expect) if options.expect else None
    args = arguments(module, options.input, options.seed)
    begin = time.perf_counter()
    results = module.run(args, options.device)
    seconds = time.perf_counter() - begin
    names = [b.name for b in module.outputs]
    if options.output:
        _save(Path(options.output), dict(zip(names, results, strict=True)))
    rows = [_described(name, array) for name, array in zip(names, results, strict=True)]
    output.tables(
        table_of(
            f"{module.name} on {module.mesh}, {options.device}: {seconds:.2f} s",
            ("result", "type", "mean", "largest"),
            [list(r.values()) for r in rows],
            left=("type",),
        )
    )
    compared = compare(names, results, expected, options.tolerance) if expected is not None else []
    for row in compared:
        output.text(
            f"{'ok' if row['ok'] else 'DIFFERS'}: {row['name']}: error {row['error']:.3g}, tolerance {row['tolerance']:.3g}"
        )
    output.document(
        {"device": options.device, "ranks": module.mesh.size, "seconds": seconds, "outputs": rows, "compared": compared}
    )
    return 0 if all(row["ok"] for row in compared) else NumbersDiffer.exit_code


def _refuse_devices(count: int, module: LoadedModule) -> None:
    message = f"the module is for {module.mesh.size} devices ({module.mesh}), but {count} are asked for"
    raise MissingError(
        Diagnostic(
            "MG0603",
            message,
            hint=f"compile the program for a mesh of {count} devices, or run it on {module.mesh.size}",
        )
    )


def arguments(module: LoadedModule, inputs: Sequence[str], seed: int) -> dict[str, Array]:
    """Arrays for every input: those of the files, the others random. Raises UsageError, ArgumentError."""
    given: dict[str, Array] = {}
    for text in inputs:
        name, _, file = text.rpartition("=")
        if not file.startswith("@"):
            raise UsageError(
                Diagnostic("MG0001", f"'{text}' is not NAME=@FILE", hint="write for example x=@x.npy, or @all.npz")
            )
        arrays = load_arrays(file[1:])
        given |= {name: next(iter(arrays.values()))} if name else arrays
    names = [b.name for b in module.inputs]
    if unknown := [name for name in given if name not in names]:
        hint = f"the inputs are {', '.join(names)}"
        raise ArgumentError(*(Diagnostic("MG0601", f"there is no input '{name}'", hint=hint) for name in unknown))
    given = {b.name: _reinterpreted(given[b.name], b.type) for b in module.inputs if b.name in given}
    return {b.name: random_array(b.type, [seed, i]) for i, b in enumerate(module.inputs)} | given


def _reinterpreted(array: Array, kind: TensorType) -> Array:
    """Files hold bf16 and 8-bit floats as plain bytes: give them their type back."""
    if array.dtype.kind == "V" and array.dtype.itemsize == kind.numpy_dtype.itemsize:
        return array.view(kind.numpy_dtype)
    return array


def random_array(kind: TensorType, seed: Sequence[int]) -> Array:
    """Normally distributed floats, integers from 1 to 7: never all zero, and the same for the same seed."""
    generator = np.random.default_rng(seed)
    if is_float(kind.dtype):
        return generator.standard_normal(kind.sizes, dtype=np.float32).astype(kind.numpy_dtype)
    return np.asarray(generator.integers(1, 8, kind.sizes)).astype(kind.numpy_dtype)


def _described(name: str, array: Array) -> dict[str, Any]:
    wide = np.asarray(array, np.float64)
    mean = float(wide.mean()) if wide.size else 0.0
    return {
        "name": name,
        "type": f"{array.dtype}{list(array.shape)}",
        "mean": mean,
        "largest": float(np.max(np.abs(wide), initial=0)),
    }


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    try:
        np.savez(path, allow_pickle=False, **arrays)
    except OSError as error:
        raise UsageError(Diagnostic("MG0003", f"'{path}' cannot be written: {error.strerror}")) from error


def compare(
    names: Sequence[str], results: Sequence[Array], expected: Mapping[str, Array], tolerance: float | None
) -> list[dict[str, Any]]:
    """Per result, its largest error relative to the largest expected value. Raises ArgumentError for a misfit."""
    if len(expected) != len(results):
        raise ArgumentError(
            Diagnostic("MG0601", f"{len(expected)} results are expected, but the program has {len(results)}")
        )
    rows: list[dict[str, Any]] = []
    for name, got, key in zip(names, results, names if set(names) == set(expected) else expected, strict=True):
        want = expected[key]
        if want.shape != got.shape:
            raise ArgumentError(
                Diagnostic("MG0601", f"result '{name}' has shape {list(got.shape)}, expected is {list(want.shape)}")
            )
        want = want.view(got.dtype) if want.dtype.kind == "V" else want
        limit = default_tolerance(got) if tolerance is None else tolerance
        error = relative_error(got, want)
        rows.append({"name": name, "error": error, "tolerance": limit, "ok": error <= limit})
    return rows


def relative_error(got: Array, want: Array) -> float:
    """Largest difference over the largest expected value; infinite where one is not finite and they differ."""
    left, right = np.asarray(got, np.float64), np.asarray(want, np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(left - right))
    worst = float(np.max(np.nan_to_num(distance, nan=np.inf), initial=0))
    scale = float(np.max(np.abs(right), initial=0, where=np.isfinite(right)))
    return worst / scale if scale else worst


def default_tolerance(array: Array) -> float:
    """Half of the digits of a float type; integers must be equal."""
    import ml_dtypes

    try:
        return float(ml_dtypes.finfo(array.dtype).eps) ** 0.5
    except ValueError:
        return 0.0
