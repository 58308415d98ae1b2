"""Builder of kernel bodies, and functions that run a body as a kernel (emulated or interpreted) or in NumPy."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, product
from typing import Any

import numpy as np

from meshgen.codegen.building.build import build_kernels, request_of
from meshgen.codegen.building.built_kernel import BuiltKernel
from meshgen.codegen.building.candidates import candidate_sources
from meshgen.codegen.triton_source import KernelSource, kernel_source, kernel_sources
from meshgen.commands.kernel_check import worst_error
from meshgen.ir.graph import DTYPES, Graph, TensorType, Value
from meshgen.mesh import Mesh, make_mesh
from meshgen.ops.classes import CONTRACTIONS
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.precision import TF32, TF32X3, multiplied_as
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.ops.types.inference import infer_types
from meshgen.runtime.interpret import InterpretedKernel
from tests.emulator.programs import emulate
from tests.emulator.ptx_builds import ptx_of

ONE = make_mesh({"x": 1})
ARCHS = ("sm_80", "sm_90")


def tensor(text: str) -> TensorType:
    """Parse a type such as `f32[4,8]`."""
    dtype, _, dims = text.removesuffix("]").partition("[")
    return TensorType(tuple(int(d) for d in dims.split(",") if d), dtype)


class Body:
    """A graph under construction."""

    def __init__(self, *inputs: str, name: str = "body") -> None:
        self.graph = Graph(name, [Value(tensor(t), f"x{i}") for i, t in enumerate(inputs)])

    @property
    def inputs(self) -> list[Value]:
        return self.graph.inputs

    def op(self, name: str, *operands: Value, to: str = "", **attrs: Any) -> Value:
        types = [tensor(to)] if to else infer_types(name, attrs, [v.type for v in operands])
        assert types is not None, f"give the type of {name}"
        return self.graph.add(name, operands, types, attrs).result

    def constant(self, value: Any, dtype: str) -> Value:
        array = np.array(value, DTYPES[dtype])
        return self.graph.add("constant", [], [TensorType(array.shape, dtype)], {"value": array}).result

    def splat(self, value: Any, like: Value) -> Value:
        return self.wide(self.constant(value, like.type.dtype), like, ())

    def wide(self, value: Value, like: Value, dims: Sequence[int]) -> Value:
        to = TensorType(like.type.shape, value.type.dtype)
        return self.graph.add("broadcast_in_dim", [value], [to], {"dims": tuple(dims)}).result

    def reduce(self, kind: str, x: Value, *dims: int) -> Value:
        start = {"add": 0, "multiply": 1, "maximum": -np.inf, "minimum": np.inf, "and": -1, "or": 0, "xor": 0}[kind]
        if not x.type.dtype.startswith(("f", "bf")) and kind in ("maximum", "minimum"):
            low, high = (0, 1) if x.type.dtype == "i1" else (-(2**31), 2**31 - 1)
            start = low if kind == "maximum" else high
        init = self.constant(start, x.type.dtype)
        shape = tuple(s for d, s in enumerate(x.type.sizes) if d not in dims)
        return self.graph.add(
            "reduce", [x, init], [TensorType(shape, x.type.dtype)], {"dims": dims, "kind": kind}
        ).result

    def dot(self, a: Value, b: Value, contract: tuple[Sequence[int], Sequence[int]],
            batch: tuple[Sequence[int], Sequence[int]] = ((), ()), dtype: str = "", precision: Sequence[str] = ()) -> Value:  # fmt: skip
        free = [s for d, s in enumerate(a.type.sizes) if d not in contract[0] and d not in batch[0]]
        free += [s for d, s in enumerate(b.type.sizes) if d not in contract[1] and d not in batch[1]]
        shape = (*(a.type.sizes[d] for d in batch[0]), *free)
        attrs = {"lhs_batch": tuple(batch[0]), "rhs_batch": tuple(batch[1]), "lhs_contract": tuple(contract[0]),
                 "rhs_contract": tuple(contract[1]), "precision": tuple(precision)}  # fmt: skip
        return self.graph.add("dot_general", [a, b], [TensorType(shape, dtype or a.type.dtype)], attrs).result

    def done(self, *outputs: Value) -> Graph:
        self.graph.outputs = list(outputs)
        return self.graph


def candidate_tiles(body: Graph) -> list[Mapping[str, Any]]:
    """Return the tiles of the candidate kernels of a body, after checking two properties.

    The tiles are distinct, and a tile that a measurement recorded as the fastest is the chosen one.
    """
    tiles = [source.tile for source in kernel_sources("body", body, ONE)]
    assert all(tile not in tiles[:index] for index, tile in enumerate(tiles)), tiles
    for tile in tiles:
        best = next(candidate_sources("body", body, ONE, "cuda:sm_90", tile))
        assert best.is_measured and best.tile == tile
    return tiles


def random_args(body: Graph, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    args: list[np.ndarray[Any, Any]] = []
    for value in body.inputs:
        shape, dtype = value.type.sizes, value.type.dtype
        if dtype == "i1":
            args.append(np.asarray(rng.random(shape) < 0.5))
        elif dtype.startswith(("f", "bf")):
            args.append(rng.standard_normal(shape).astype(DTYPES[dtype]))
        else:
            args.append(rng.integers(0, 9, shape).astype(DTYPES[dtype]))
    return args


def launch(source: KernelSource, body: Graph, args: Sequence[np.ndarray[Any, Any]],
           coordinates: Mapping[tuple[str, ...], int] | None = None) -> list[np.ndarray[Any, Any]]:  # fmt: skip
    """Interpret the kernel. Results start as garbage, so the comparison detects unwritten elements."""
    results = [np.full(v.type.sizes, 77, v.type.numpy_dtype) for v in body.outputs]
    if 0 in source.grid:
        return results
    passed: list[Any] = []
    for kind, key in source.params:
        passed.append(
            args[key] if kind == "operand" else results[key] if kind == "result" else (coordinates or {})[key]
        )
    InterpretedKernel(source.text, source.entry).launch(source.grid, passed, source.constants)
    return results


def assembled(source: KernelSource, body: Graph, arch: str) -> BuiltKernel:
    """Return the kernel with its cubin."""
    (built,) = build_kernels([request_of(body.name, source, body)], [arch]).values()
    return built


def with_architectures(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pair the names with the two architectures alternately, or each with both if MESHGEN_BOTH=1 is set."""
    return list(product(names, ARCHS) if os.environ.get("MESHGEN_BOTH") else zip(names, cycle(ARCHS)))


def emulated(source: KernelSource, body: Graph, args: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Run the kernel's PTX on the emulated GPU with all checks, for one of two architectures.

    A hash of the source chooses the architecture, so a kernel always runs on the same one. With MESHGEN_BOTH=1,
    kernels are assembled and run for both.
    """
    archs = list(ARCHS) if not any("f8" in v.type.dtype for v in (*body.inputs, *body.outputs)) else ["sm_90"]
    if not (both_archs := os.environ.get("MESHGEN_BOTH")):
        archs = [archs[zlib.crc32(source.text.encode()) % len(archs)]]
    typed = [np.asarray(arg, value.type.numpy_dtype) for arg, value in zip(args, body.inputs, strict=True)]
    results: list[np.ndarray[Any, Any]] = []
    for arch in archs:
        built = assembled(source, body, arch) if both_archs else ptx_of(source, body, arch)
        results = emulate(source, built, arch, body, typed, {})
    return results


def check(body: Graph, *, args: Sequence[np.ndarray[Any, Any]] | None = None, ulps: float = 8, length: int = 1,
          mesh: Mesh = ONE, target: str = "cuda:sm_90") -> KernelSource:  # fmt: skip
    """Check that the kernel equals the reference within `ulps` units of the result type, for sums of `length` terms.

    Kernels that multiply f32 as TF32 are checked against the error bound for TF32.
    """
    args = random_args(body) if args is None else args
    source = kernel_source(body.name, body, mesh, target)
    results, expected = emulated(source, body, args), evaluate(body, list(args))
    uses_tf32 = any(node.op in CONTRACTIONS and multiplied_as(node) in (TF32, TF32X3) for node in body.nodes)
    bounds = error_bound(body, args, tf32=True) if uses_tf32 else []
    for index, (got, want) in enumerate(zip(results, expected, strict=True)):
        dtype = body.outputs[index].type.dtype
        if not dtype.startswith(("f", "bf")):
            np.testing.assert_array_equal(got, want, err_msg=source.text)
            continue
        unit = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}[dtype]
        wide = np.asarray(want, np.float64)
        scale = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(wide), wide, 0)), initial=0)))
        bound = ulps * (unit + length * 2.0**-24) * scale if dtype != "f64" else ulps * length * unit * scale
        if uses_tf32:
            error, allowed = worst_error(got, want, np.maximum(bound, bounds[index]))
            assert error <= allowed, source.text
        else:
            np.testing.assert_allclose(np.asarray(got, np.float64), wide, rtol=0, atol=bound, err_msg=source.text)
    return source
