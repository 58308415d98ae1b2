"""Small PyTorch models. Each is planned for a GPU, and its results on two meshes are compared with those on a single
device.
"""

from __future__ import annotations

from typing import Any

import pytest

from bench.models import catalog
from meshgen import api
from meshgen.codegen.missing_kernels import require_kernels
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check

pytest.importorskip("torch")
pytest.importorskip("transformers")


def pipeline(module: Any) -> Any:
    return run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", catalog.FAMILIES["torch_models"].programs)
def test_torch_model_is_planned_and_checked_on_two_meshes(name: str) -> None:
    program = catalog.program(name, True)
    exported = program.lowered()
    planned = api.plan(exported, program.mesh, in_specs=program.in_specs, target="cuda:sm_90")
    require_kernels([planned.plan])
    for mesh in (program.mesh, dict.fromkeys(program.mesh, 2)):
        module, _ = api.read(exported, mesh, in_specs=program.in_specs)
        assert check(module, pipeline=pipeline).ok, mesh
