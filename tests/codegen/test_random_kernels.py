"""Tests of random programs from import to kernels.

Each kernel is interpreted on two devices and compared with its body.

MESHGEN_RANDOM_KERNELS=500 checks that many programs instead of a few.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from bodies import launch

from meshgen.codegen.triton_source import kernel_source
from meshgen.commands.kernel_check import worst_error
from meshgen.errors import CodegenError, MeshgenError
from meshgen.ir.graph import Graph
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.pipeline import Timing, run_stages
from meshgen.runtime.random_arrays import random_array
from meshgen.runtime.simulate import rank_handlers
from meshgen.testing.random_programs import options_of, program_of

COUNT = int(os.environ.get("MESHGEN_RANDOM_KERNELS", "18"))
AT_ONCE = 6


def kernel_agrees(body: Graph, mesh: Mesh, seed: int) -> None:
    """Check that the kernel computes its body and needed no mask for a bounds proof.

    Bodies without kernels are skipped.
    """
    try:
        source = kernel_source(body.name, body, mesh)
    except CodegenError as error:
        assert "no proof" not in str(error), str(error)
        return
    assert " place " not in source.text, source.text
    operands = [random_array(v.type, [seed, n]) for n, v in enumerate(body.inputs)]
    # The last rank has padding rows of arbitrary values, so only its accesses are checked.
    for rank in {0, mesh.size - 1}:
        evaluator = Evaluator(rank_handlers(mesh, rank))
        coordinates = {axes: mesh.index(rank, axes) for kind, axes in source.params if kind == "coordinate"}
        results = launch(source, body, operands, coordinates)
        if rank == 0:
            expected, bounds = evaluator.graph(body, operands), error_bound(body, operands, evaluator=evaluator)
            errors = [worst_error(*comparison) for comparison in zip(results, expected, bounds, strict=True)]
            assert all(error <= allowed for error, allowed in errors), source.text


@pytest.mark.parametrize("first", range(0, COUNT, AT_ONCE))
def test_random_program_kernels_match_their_bodies(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, COUNT)):
        try:
            fused = run_stages(program_of(seed), options_of(seed), Timing(), "fuse")["fuse"]
        except MeshgenError:  # The program is rejected, which `test_random_programs` covers.
            continue
        with np.errstate(all="ignore"):
            for part in fused.parts or [fused]:
                for body in part.kernels.values():
                    kernel_agrees(body, part.mesh, seed)
