"""Tests of copies: a loaded module is independent of later changes to its file, and can be copied and pickled."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ModuleError, UsageError
from tests.runtime.module_kinds import OPEN, stages

X, W = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((4, 4), np.float32)


def program() -> mg.Executable:
    return mg.compile(
        lambda x, w: (x @ w, {"x": -x}),
        {"a": 2},
        args=["f32[2,4]", "f32[4,4]"],
        in_specs={"x": mg.P("a")},
        target="cpu",
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    program().save(tmp_path / "m.mgx", weights={"w": W})
    return tmp_path / "m.mgx"


def test_loaded_module_ignores_later_file_changes(path: Path) -> None:
    module = mg.load(path)
    with open(path, "r+b") as file:
        offset = path.read_bytes().find(W.tobytes())
        file.seek(offset)
        file.write((7 * W).tobytes())
    np.testing.assert_array_equal(module(X)[0], X @ W)
    with pytest.raises(ModuleError, match=r"MG0502.*weights"):
        mg.load(path)


def test_loaded_module_ignores_later_truncation(path: Path) -> None:
    module = mg.load(path)
    path.write_bytes(b"")
    np.testing.assert_array_equal(module(X)[0], X @ W)
    assert "func.func" in module.stages["partition"] and module.source(module.kernel_names[0])


def test_mmap_maps_only_weights(path: Path) -> None:
    module = mg.load(path, mmap=True)
    os.rename(path, path.with_name("other.mgx"))  # replacing the file leaves the mapped one unchanged
    path.write_bytes(b"")
    np.testing.assert_array_equal(module(X)[0], X @ W)
    with open(path.with_name("other.mgx"), "r+b") as file:
        file.write(bytes(64))  # only weights are mapped; everything else has been copied
    assert module.stages["partition"] and pickle.loads(pickle.dumps(module)).name == module.name


def test_load_rejects_pipe_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mgx")
    with pytest.raises(UsageError, match=r"MG0002.*not a regular file"):
        mg.load(tmp_path / "pipe.mgx")


def test_module_and_executable_can_be_pickled_and_copied(path: Path) -> None:
    module, executable = mg.load(path), program()
    path.unlink()
    for duplicate in (copy.copy(module), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        np.testing.assert_array_equal(duplicate(X)[1]["x"], -X)
    for duplicate in (copy.deepcopy(executable), pickle.loads(pickle.dumps(executable))):
        np.testing.assert_array_equal(duplicate(X, W)[1]["x"], -X)


def test_multi_mesh_and_open_modules_can_be_pickled(tmp_path: Path) -> None:
    specs = {"x": mg.P("a", mesh="first"), "w": mg.P("b", mesh="second")}
    mg.compile(
        stages, {"first": {"a": 2}, "second": {"b": 3}}, args=["f32[6,4]", "f32[4,2]"], in_specs=specs, target="cpu"
    ).save(tmp_path / "p.mgx")
    mg.compile(OPEN, {"a": None}, target="cpu", sizes=[{"mesh": {"a": 2}, "args": {"x": (6, 8)}}]).save(
        tmp_path / "o.mgx"
    )
    x, w = np.ones((6, 4), np.float32), np.ones((4, 2), np.float32)
    both = mg.load(tmp_path / "p.mgx")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(both))(x, w), both(x, w))
    opened = mg.load(tmp_path / "o.mgx", devices=2)
    again = pickle.loads(pickle.dumps(opened))
    assert again.meshes == opened.meshes and again.specializations == opened.specializations
    wide, kernel = np.ones((6, 8), np.float32), np.ones((8, 4), np.float32)
    np.testing.assert_array_equal(again(wide, kernel), opened(wide, w=kernel))


def test_corrupted_module_pickle_is_rejected(path: Path) -> None:
    text = pickle.dumps(mg.load(path))
    offset = text.find(W.tobytes())
    with pytest.raises(ModuleError, match="MG0502"):
        pickle.loads(text[:offset] + b"\1" + text[offset + 1 :])
