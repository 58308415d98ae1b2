"""Parameters from files, by `meshgen run --weights` and `session(weights=...)`. Missing parameters and extra tensors
are listed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.errors import ArgumentError, UsageError
from meshgen.runtime.module_file.tensors import encode

W1, W2, X = (np.arange(4, dtype=np.float32) + k for k in (1, 2, 3))
F = "f32[4]"


def flat(x: Any, w1: Any, w2: Any) -> Any:
    return x * w1 + w2


def structured(params: Any, state: Any, x: Any) -> Any:
    return x * params["w1"] + params["w2"] + state["m"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    mg.compile(flat, {"d": 2}, args=[F] * 3, target="cpu").save(folder / "flat.mgx")
    args = [{"w1": F, "w2": F}, {"m": F}, F]
    mg.compile(structured, {"d": 2}, args=args, target="cpu").save(folder / "tree.mgx")
    for name, arrays in {
        "both": {"w1": W1, "w2": W2},
        "one": {"w1": W1},
        "extra": {"w1": W1, "w2": W2, "w3": W1},
        "wrong": {"w1": W1, "w22": W2},
        "state": {"m": W2},
    }.items():
        (folder / f"{name}.safetensors").write_bytes(encode(arrays))
    np.save(folder / "x.npy", X)
    return folder


def ran(folder: Path, module: str, weights: list[str], *words: str) -> int:
    files = [word for path in weights for word in ("--weights", str(folder / path))]
    return main(["run", str(folder / module), *files, "--output", str(folder / "y.npz"), *words])


def result(folder: Path) -> np.ndarray[Any, Any]:
    return np.load(folder / "y.npz")["result0"]


@pytest.mark.parametrize("module", ["flat.mgx", "tree.mgx"])
def test_run_lists_missing_parameters_and_extra_tensors(
    module: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = ["--input", f"x=@{folder / 'x.npy'}"]
    assert ran(folder, module, ["wrong.safetensors", "state.safetensors"], *x) == 1
    missing, _, extra = capsys.readouterr().err.partition("tensors that the program does not take")
    assert "have no value for" in missing and "w2' (f32[4])" in missing and "w1'" not in missing
    assert f"'{folder / 'wrong.safetensors'}'" in missing
    assert "'w22'" in extra and "--ignore-extra" in extra
    assert ran(folder, module, ["wrong.safetensors"], *x, "--ignore-extra") == 1
    assert ran(folder, module, ["one.safetensors"], *x) == 1
    assert "w2' (f32[4])" in capsys.readouterr().err


def test_run_reads_parameters_and_ignores_extra_tensors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = ["--input", f"x=@{folder / 'x.npy'}"]
    assert ran(folder, "flat.mgx", ["both.safetensors"], *x) == 0
    np.testing.assert_array_equal(result(folder), X * W1 + W2)
    assert ran(folder, "flat.mgx", ["extra.safetensors"], *x) == 1
    assert "'w3'" in capsys.readouterr().err
    assert ran(folder, "flat.mgx", ["extra.safetensors"], *x, "--ignore-extra") == 0
    np.testing.assert_array_equal(result(folder), X * W1 + W2)
    assert "random" not in capsys.readouterr().err
    assert ran(folder, "tree.mgx", ["both.safetensors", "state.safetensors"], *x) == 0
    np.testing.assert_array_equal(result(folder), X * W1 + W2 + W2)


def test_random_inputs_beside_weights_must_be_requested(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(folder, "flat.mgx", ["both.safetensors"]) == 1
    errors = capsys.readouterr().err
    assert "no value for 'x' (f32[4])" in errors and "--input NAME=random" in errors
    assert ran(folder, "flat.mgx", ["both.safetensors"], "--input", "x=random") == 0
    assert ran(folder, "tree.mgx", ["both.safetensors"]) == 1
    assert "'state.m'" in capsys.readouterr().err
    assert ran(folder, "tree.mgx", ["both.safetensors"], "--input", "state.*=random") == 0
    assert "note: random numbers for 'state.m', 'x'" in capsys.readouterr().err
    assert ran(folder, "tree.mgx", ["both.safetensors"], "--input", "stat=random") == 2
    assert "stat=random names no input" in capsys.readouterr().err


def test_repeated_input_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = ["--input", f"x=@{folder / 'x.npy'}"]
    assert main(["run", str(folder / "flat.mgx"), *x, *x]) == 2
    assert "--input gives 'x' twice" in capsys.readouterr().err


def test_model_without_weights_requires_only_its_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    from tests import onnx_models

    executable = mg.compile(onnx_models.mlp(), {"tp": 2}, args={"batch": 8}, target="cpu")
    executable.save(tmp_path / "bare.mgx", weights={})
    arrays = {name: np.asarray(array) for name, array in executable.signature.weights.items()}
    (tmp_path / "all.safetensors").write_bytes(encode(arrays))
    lost = arrays.pop("layers.0.up.bias")
    (tmp_path / "some.safetensors").write_bytes(encode(arrays))
    run = ["run", str(tmp_path / "bare.mgx"), "--weights"]
    assert main([*run, str(tmp_path / "all.safetensors")]) == 0
    assert "random numbers for 'x'" in capsys.readouterr().err
    assert main([*run, str(tmp_path / "some.safetensors")]) == 1
    assert f"no value for 'layers.0.up.bias' (f32[{lost.shape[0]}])" in capsys.readouterr().err
    with pytest.raises(ArgumentError, match=r"some.safetensors' has no value for 'layers.0.up.bias'"):
        mg.load(tmp_path / "bare.mgx").session(weights=tmp_path / "some.safetensors")


def test_session_lists_missing_leaves_and_extra_tensors_of_file(folder: Path) -> None:
    module = mg.load(folder / "tree.mgx")
    with pytest.raises(ArgumentError) as refused:
        module.session(weights=folder / "wrong.safetensors")
    missing, extra = refused.value.diagnostics
    assert "wrong.safetensors' has no value for 'params.w2'" in missing.message
    assert "'w22'" in extra.message and "ignore_extra=True" in extra.hint
    with pytest.raises(ArgumentError, match="'w3'"):
        module.session(weights=folder / "extra.safetensors")
    with module.session(weights=folder / "extra.safetensors", ignore_extra=True) as session:
        np.testing.assert_array_equal(np.asarray(session({"m": W1}, X)), X * W1 + W2 + W1)


def test_tensors_for_one_input_must_be_equal(folder: Path, tmp_path: Path) -> None:
    module = mg.load(folder / "tree.mgx")
    arrays = {"params.w1": W1, "params/w1": W1, "w2": W2}
    (tmp_path / "same.safetensors").write_bytes(encode(arrays))
    module.session(weights=tmp_path / "same.safetensors").close()
    (tmp_path / "other.safetensors").write_bytes(encode(arrays | {"params/w1": W2}))
    with pytest.raises(ArgumentError, match=r"several tensors are for 'params\.w1', and they differ"):
        module.session(weights=tmp_path / "other.safetensors")


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    for index_of_file, (name, array) in enumerate({"w1": W1, "w2": W2}.items()):
        (tmp_path / f"model-{index_of_file}.safetensors").write_bytes(encode({name: array}))
    (tmp_path / "consolidated.safetensors").write_bytes(encode({"w1": W1, "w2": W2}))
    names = {"w1": "model-0.safetensors", "w2": "model-1.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 32}, "weight_map": names}))
    return index


def test_index_names_files_of_checkpoint(indexed: Path, folder: Path) -> None:
    x = ["--input", f"x=@{folder / 'x.npy'}"]
    for weights in (indexed, indexed.parent):
        assert ran(folder, "flat.mgx", [str(weights)], *x) == 0
        np.testing.assert_array_equal(result(folder), X * W1 + W2)
        with mg.load(folder / "flat.mgx").session(weights=weights) as session:
            np.testing.assert_array_equal(np.asarray(session(X)), X * W1 + W2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot be read as an index"),
        ("[]", "cannot be read as an index"),
        ('{"weight_map": {"w": ""}}', "is not the name of a .safetensors file beside it"),
        ('{"weight_map": {"w": ".."}}', "is not the name of a .safetensors file beside it"),
        ('{"weight_map": {"w1": "../model-0.safetensors"}}', "is not the name of a .safetensors file beside it"),
        ('{"weight_map": {"w1": "gone.safetensors"}}', "gone.safetensors"),
    ],
)
def test_malformed_index_is_refused(indexed: Path, folder: Path, text: str, reason: str) -> None:
    indexed.write_text(text)
    with pytest.raises(UsageError, match="MG0002") as refused:
        mg.load(folder / "flat.mgx").session(weights=indexed)
    assert reason in str(refused.value)
