"""Tests of weights in orbax checkpoints: recognized by files, named by keys, and rejected without tensorstore."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen import budget
from meshgen.errors import MissingError, UsageError
from meshgen.runtime.sessions.checkpoints import METADATA, Checkpoint, checkpoint_of
from meshgen.runtime.sessions.weights import weights_by_name

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def entry(kind: str, *keys: str) -> dict[str, Any]:
    return {"key_metadata": [{"key": key, "key_type": 2} for key in keys], "value_metadata": {"value_type": kind}}


def described(folder: Path, **changes: Any) -> Path:
    rows = [
        entry("np.ndarray", "params", "h", "0", "w"),
        entry("jax.Array", "params", "b"),
        entry("None", "params", "none"),
    ]
    tree = {str(number): row for number, row in enumerate(rows)}
    folder.mkdir(parents=True)
    (folder / METADATA).write_text(
        json.dumps({"tree_metadata": tree, "use_ocdbt": False, "use_zarr3": False} | changes)
    )
    return folder


class Store:
    """A stand-in for tensorstore: reads the array that the spec names."""

    @staticmethod
    def open(spec: Any, **_: Any) -> Any:
        store = spec["kvstore"]
        path = (
            Path(store["path"])
            if store["driver"] == "file"
            else Path(store["base"].removeprefix("file://")) / store["path"]
        )
        if not (path / "x.npy").exists():
            raise ValueError(f"NOT_FOUND: {path}")
        return Done(Opened(np.load(path / "x.npy")))


class Done:
    def __init__(self, value: Any) -> None:
        self.result = lambda: value


class Opened:
    def __init__(self, value: Any) -> None:
        self.read = lambda: Done(value)
        self.shape, self.dtype = value.shape, SimpleNamespace(numpy_dtype=value.dtype)
        self.chunk_layout = SimpleNamespace(read_chunk=SimpleNamespace(shape=value.shape))


@pytest.mark.parametrize("is_one_store", [False, True])
def test_checkpoint_arrays_are_named_by_keys(
    is_one_store: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", Store)  # type: ignore[arg-type]
    folder = described(tmp_path / "0" / "default", use_ocdbt=is_one_store)
    for name, array in (("params.h.0.w", X), ("params.b", X[0])):
        (folder / name).mkdir()
        np.save(folder / name / "x.npy", array)
    weights = weights_by_name(tmp_path / "0")
    assert [*weights] == ["params.h.0.w", "params.b"]
    executable = mg.compile(
        lambda params, x: x * params["h"][0]["w"] + params["b"], {"d": 2},
        args=[{"h": [{"w": "f32[3,4]"}], "b": "f32[4]"}, "f32[3,4]"], target="cpu",
    )  # fmt: skip
    executable.save(tmp_path / "m.mgx", weights=tmp_path / "0")
    np.testing.assert_array_equal(mg.load(tmp_path / "m.mgx")(X), X * X + X[0])
    (folder / "params.b" / "x.npy").unlink()
    with pytest.raises(UsageError, match=r"MG0002.*'params\.b'.*cannot be read"):
        executable.save(tmp_path / "m.mgx", weights=str(tmp_path / "0"))


def test_checkpoint_array_larger_than_memory_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", Store)  # type: ignore[arg-type]
    folder = described(tmp_path / "c")
    (folder / "params.b").mkdir()
    np.save(folder / "params.b" / "x.npy", X)
    checkpoint = Checkpoint(folder)
    monkeypatch.setattr(budget, "free_bytes", lambda: 2 * X.nbytes - 1)
    with pytest.raises(UsageError, match=r"MG0002.*'params\.b'.*takes 96 B of memory, but 95 B are free"):
        checkpoint["params.b"]
    # enough for the array and one chunk of it, which here is the entire array
    monkeypatch.setattr(budget, "free_bytes", lambda: 2 * X.nbytes)
    np.testing.assert_array_equal(checkpoint["params.b"], X)


def test_checkpoint_key_outside_folder_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", Store)  # type: ignore[arg-type]
    (tmp_path / "x").mkdir()
    np.save(tmp_path / "x" / "x.npy", X)
    checkpoint = Checkpoint(described(tmp_path / "c", tree_metadata={"0": entry("np.ndarray", "../x")}))
    with pytest.raises(UsageError, match=r"MG0002.*'\.\./x' is not in the folder"):
        checkpoint["../x"]


def test_checkpoint_without_tensorstore_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    with pytest.raises(MissingError, match=r"MG0602.*'tensorstore' is not installed"):
        weights_by_name(described(tmp_path / "c"))


@pytest.mark.parametrize("changes", [{"tree_metadata": 3}, {"use_ocdbt": None}, {"tree_metadata": {"a": {}}}], ids=str)
def test_malformed_checkpoint_metadata_is_rejected(
    changes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", Store)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"MG0002.*cannot be read as a checkpoint"):
        Checkpoint(described(tmp_path / "c", **changes))


def test_folder_without_metadata_is_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoint_of(tmp_path) is None


@pytest.mark.parametrize("names", [("2", "10"), ("step_000002", "step_000010")], ids=str)
@pytest.mark.parametrize("item", ["default", "params"])
def test_newest_step_of_manager_folder_is_chosen(names: tuple[str, str], item: str, tmp_path: Path) -> None:
    for name in names:
        described(tmp_path / name / item)
    (tmp_path / f"{names[1]}1.orbax-checkpoint-tmp" / item).mkdir(parents=True)  # orbax is still writing this step
    assert checkpoint_of(tmp_path) == tmp_path / names[1] / item


def test_step_with_several_unusual_items_is_no_checkpoint(tmp_path: Path) -> None:
    for item in ("params", "optimizer"):
        described(tmp_path / "3" / item)
    assert checkpoint_of(tmp_path) is None and checkpoint_of(tmp_path / "3" / "params") == tmp_path / "3" / "params"


def test_tensorstore_checkpoint_is_read_back(tmp_path: Path) -> None:
    library = pytest.importorskip("tensorstore")
    folder = described(tmp_path / "c", use_ocdbt=True)
    for name, array in (("params.h.0.w", X), ("params.b", X[0])):
        store = {"driver": "ocdbt", "base": f"file://{folder}/", "path": f"{name}/"}
        opened = library.open({"driver": "zarr", "kvstore": store}, create=True, dtype=array.dtype, shape=array.shape)
        opened.result().write(array).result()
    np.testing.assert_array_equal(Checkpoint(folder)["params.h.0.w"], X)
