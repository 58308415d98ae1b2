"""Random programs for the oracle: small graphs with odd sizes, odd meshes, and conflicting annotations.

The same seed gives the same program. Sizes are 1 to 13, so that tiles are uneven or empty and dims of size 1 are
sharded. Meshes have one to four axes (up to six for `ODD`), some of size 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, Module, TensorType, is_complex, is_float
from meshgen.mlir.shard.complete import complete_local
from meshgen.testing.generators import ODD, ODD_OPS, OPEN, OPS, USUAL, Variety, Writer, collectives
from meshgen.testing.generators.collectives import local_program
from meshgen.testing.generators.open_sizes import OpenProgram, opened
from meshgen.testing.generators.several_meshes import on_two_meshes
from meshgen.testing.generators.shardings import annotate_inside, random_annotation, random_mesh


def random_program(seed: int, variety: Variety = USUAL) -> Module:
    """Return a program of about 3 to 8 ops at stage import, with required annotations and hints."""
    rng = np.random.default_rng(seed)
    return _grown(Writer(rng, random_mesh(rng, variety), ODD_OPS if variety is ODD else OPS, variety=variety))


def _grown(writer: Writer) -> Module:
    for _ in range(writer.integer(1, 4)):
        writer.new_input()
    count = writer.integer(3, 9)
    while len(writer.graph.nodes) < count:
        writer.one_of(writer.ops)(writer)
    graph, mesh = writer.graph, writer.mesh
    graph.outputs = [graph.nodes[-1].results[-1]]
    while writer.chance(0.3):
        graph.outputs.append(writer.one_of(writer.values))
    annotate_inside(writer, mesh)
    annotations = [random_annotation(writer, mesh, v) if writer.chance(0.6) else None for v in graph.inputs]
    results = [random_annotation(writer, mesh, v) if writer.chance(0.5) else None for v in graph.outputs]
    return Module(mesh, graph, in_annotations=annotations, out_annotations=results)


def random_open_program(seed: int) -> OpenProgram:
    """Return a program with open input sizes and maybe open mesh axes, together with sets of sizes to try."""
    rng = np.random.default_rng([seed, 4])
    writer = Writer(rng, random_mesh(rng), [op for op in OPS if op not in collectives.OPS], variety=OPEN)
    return opened(_grown(writer), writer)


def random_program_on_two_meshes(seed: int, variety: Variety = USUAL) -> Module:
    """Return the program `random_program(seed)` with some annotations moved to a second mesh."""
    return on_two_meshes(random_program(seed, variety), np.random.default_rng([seed, 2]))


def random_local_program(seed: int, variety: Variety = USUAL) -> Module:
    """Return a program with collectives on tiles, at stage partition."""
    rng = np.random.default_rng([seed, 1])
    mesh = random_mesh(rng)
    module = Module(mesh, local_program(rng, mesh, variety))
    complete_local(module)
    return module


def random_arguments(module: Module, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Return seeded global arguments without zeros: floats of either sign near 1, integers from 1 to 6, booleans."""
    types = module.in_types or [value.type for value in module.graph.inputs]
    return [_random_array(np.random.default_rng([seed, i]), type_) for i, type_ in enumerate(types)]


def _random_array(rng: np.random.Generator, type_: TensorType) -> np.ndarray[Any, Any]:
    shape, dtype = type_.sizes, DTYPES[type_.dtype]
    if type_.dtype == "i1":
        return np.asarray(rng.integers(0, 2, shape) == 1)
    if is_complex(type_.dtype):
        angle, size = rng.uniform(0, 2 * np.pi, shape), rng.uniform(0.25, 1.5, shape)
        return np.asarray(size * np.exp(1j * angle)).astype(dtype)
    if not is_float(type_.dtype):
        return np.asarray(rng.integers(1, 7, shape)).astype(dtype)
    sign = np.where(rng.integers(0, 2, shape) == 1, 1.0, -1.0)
    return np.asarray(sign * rng.uniform(0.25, 1.5, shape)).astype(dtype)
