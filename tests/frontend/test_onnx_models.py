"""Models in the form that exporters write, compared with the reference of the onnx package. They run on one device and
sharded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import meshgen as mg
from meshgen.api import plan, read
from meshgen.cli import main
from tests import onnx_models

RANDOM = np.random.default_rng(1)
IDS = RANDOM.integers(0, 32, (4, 8))
MODELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "gpt2": (onnx_models.gpt2, (IDS,)),
    "bert": (onnx_models.bert, (IDS, np.tril(np.ones((4, 8), np.int64), 4))),
    "resnet": (onnx_models.resnet, (RANDOM.standard_normal((4, 3, 16, 16)).astype(np.float32),)),
    "lstm": (onnx_models.lstm, (IDS[:, :6],)),
}
MESHES: dict[str, dict[str, list[str]]] = {
    "gpt2": {
        "dp=2,tp=2": ["ids=dp", "*.qkv.weight=_,tp", "*.up.weight=_,tp", "*.down.weight=tp", "lm_head.weight=_,tp"],
        "tp=4": ["*.up.weight=_,tp", "*.down.weight=tp", "wte.weight=tp"],
    },
    "bert": {"dp=2,tp=2": ["ids=dp", "*.up.weight=_,tp", "*.down.weight=tp"], "x=3": ["ids=x", "*.qkv.weight=_,x"]},
    "resnet": {"dp=2": ["image=dp"], "h=2,c=2": ["image=_,_,h", "layer*.conv1.weight=c"]},
    "lstm": {"dp=2": ["ids=dp"], "tp=2": ["embed.weight=_,tp", "head.weight=tp"]},
}


@pytest.mark.parametrize("name", MODELS)
def test_exported_model_matches_onnx_reference(name: str) -> None:
    make, arrays = MODELS[name]
    model = make()
    executable = plan(
        model, {"dp": 2}, args={"batch": 4}, in_specs={model.graph.input[0].name: mg.P("dp")}, target="cpu"
    )
    (expected,) = onnx_models.reference(model, *arrays)
    np.testing.assert_allclose(executable(*arrays), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name, mesh", [(name, mesh) for name, meshes in MESHES.items() for mesh in meshes])
def test_sharded_model_matches_unsharded_model(name: str, mesh: str, tmp_path: Path) -> None:
    path = onnx_models.save(MODELS[name][0](), tmp_path / f"{name}.onnx")
    specs = [word for spec in MESHES[name][mesh] for word in ("--spec", spec)]
    assert main(["check", path, "--mesh", mesh, "--shape", "batch=4", *specs]) == 0


def test_onnx_attention_is_one_kernel_per_layer() -> None:
    executable = plan(
        onnx_models.gpt2(), {"dp": 2}, args={"batch": 4}, in_specs={"ids": mg.P("dp")}, target="cuda:sm_90"
    )
    assert "attention" in executable.plan.kernels and not executable.comms
    assert (
        executable.cost.kernels == 16
    )  # 7 kernels per layer; one for the embedding and the first norm, one for the last norm, one for the logits


def test_shape_arithmetic_is_folded() -> None:
    module, _ = read(onnx_models.gpt2(), {"dp": 2}, args={"batch": 4})
    integer_nodes = [node for node in module.graph.nodes if node.results[0].type.dtype == "i64"]
    assert {node.op for node in integer_nodes} <= {
        "constant",
        "broadcast_in_dim",
        "add",
        "select",
        "reshape",
    }  # these are the nodes of the only gather, which looks up tokens
    assert sum(node.op == "gather" for node in module.graph.nodes) == 1
