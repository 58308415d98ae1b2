"""Models of PyTorch, small: each is planned for a GPU, and checked on two meshes against the program on one device."""

from __future__ import annotations

from typing import Any

import pytest

from meshgen import api
from meshgen.codegen.lacking import refuse_lacking
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check

pytest.importorskip("torch")
pytest.importorskip("transformers")
NAMES = ("gpt2", "llama", "mixtral", "bert", "t5", "vit", "resnet", "mamba", "unet")


def pipeline(module: Any) -> Any:
    return run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_planned_and_checked_on_two_meshes(name: str) -> None:
    from bench.models.torch_models import TORCH_PROGRAMS

    program = TORCH_PROGRAMS[name](True)
    exported = program.exported()
    planned = api.plan(exported, program.mesh, in_specs=program.in_specs, target="cuda:sm_90")
    refuse_lacking([planned.plan])
    for mesh in (program.mesh, dict.fromkeys(program.mesh, 2)):
        module, _ = api.read(exported, mesh, in_specs=program.in_specs)
        assert check(module, pipeline=pipeline).ok, mesh
