"""Modules with sizes that are open until load: specializations compiled ahead of time or at load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.compiled.open_sizes import OpenExecutable
from meshgen.errors import ArgumentError, MeshgenError, MissingError, ProgramError, ShardingError, UsageError
from meshgen.runtime import loading
from meshgen.runtime.module_file import container
from meshgen.runtime.open_module import OpenModule
from meshgen.runtime.open_program import AHEAD, AT_LOAD
from meshgen.runtime.sizes import LAUNCHERS, bound
from tests.compiled.open_programs import PROGRAM, SIZES, W, assert_correct_results, rows, written

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def executable() -> OpenExecutable:
    """The open program compiled with specializations for `SIZES`. Tests must not change it or its module."""
    compiled = mg.compile(PROGRAM, target="cpu", sizes=SIZES)
    assert isinstance(compiled, OpenExecutable)
    return compiled


@pytest.fixture(scope="module")
def path(executable: OpenExecutable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    module_path = tmp_path_factory.mktemp("open") / "m.mgx"
    executable.save(module_path)
    return module_path


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_open_module_runs_and_records_specialization_origin(size: int, path: Path) -> None:
    module = mg.load(path, mesh={"0": size})
    for count in (0, 1, 5, 6, 7):
        assert_correct_results(module, count)
        is_ahead_of_time = (size, count) in ((2, 6), (3, 5))
        specialization = module.at(args={"x": (count, 12)})
        expected = {"mesh": {"0": size}, "args": {"x": [count, 12]}, "made": AHEAD if is_ahead_of_time else AT_LOAD}
        assert specialization.record()["specialised"] == expected
        assert specialization.mesh.shape == (size, 2) and specialization.inputs[0].type.shape == (count, 12)


def test_specialization_is_compiled_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = mg.load(path, mesh={"0": 4})
    first = module.at(args={"x": (4, None)})
    monkeypatch.setattr(OpenModule, "_compiled_now", None)
    assert module.at(args={"x": (4, 12)}) is first
    assert_correct_results(module, 4)


def test_load_without_open_dims_returns_ordinary_module(tmp_path: Path) -> None:
    text, path = PROGRAM.replace("?x12", "7x12").replace("?x8xf32", "7x8xf32"), tmp_path / "m.mgx"
    mg.compile(text, target="cpu", sizes=[{"mesh": {"0": 3}}]).save(path)
    for size in (3, 4):
        module = mg.load(path, {"0": size})
        assert not isinstance(module, OpenModule) and module.ranks == 2 * size
        assert_correct_results(module, 7)
    text = r"(?s)MG0201: the size of mesh axis '0' is unknown until load\n.*\^\n.*--mesh 0=2.*specializations for 0=3"
    with pytest.raises(ShardingError, match=text):
        mg.load(path)(rows(7), W)


def test_runtime_loader_lists_available_specializations(path: Path) -> None:
    module = loading.load(path, {"0": 3})
    assert_correct_results(module, 5)
    with pytest.raises(
        MissingError, match=r"MG0602.*no specialization for 0=3, x=6x12.*0=2, x=6x12; 0=3, x=5x12"
    ) as error:
        module(rows(6), W)
    assert error.value.exit_code == 5


@pytest.mark.parametrize(
    ("mesh", "args", "kind", "text"),
    [
        ({"1": 3}, {}, ShardingError, "MG0201.*compiled for 2 devices along mesh axis '1', not 3"),
        ({"z": 3}, {}, ShardingError, "MG0202.*'z'"),
        ({"other": {"0": 3}}, {}, ShardingError, "MG0202.*@other"),
        ({"0": 0}, {}, ShardingError, "MG0201.*positive integer"),
        (3, {}, UsageError, "MG0001: expected a mesh, got 3"),
        ("0=2", {}, UsageError, "MG0001: expected a mesh, got '0=2'"),
        (None, {"x": (5, 12)}, ShardingError, "MG0201.*'0' is unknown until load"),
        (
            {"0": 2},
            {},
            ArgumentError,
            r"MG0601.*shape of argument 'x' is missing\n(?s:.)*open is mesh axis 0, x: f32\[\?,12\]",
        ),
        ({"0": 2}, {"x": (5, 13)}, ArgumentError, r"MG0601.*'x' is f32\[\?,12\], not f32\[5,13\]"),
        ({"0": 2}, {"x": (5,)}, ArgumentError, "MG0601.*'x'"),
        ({"0": 2}, {"x": (-5, 12)}, ArgumentError, "MG0601.*'x'"),
        ({"0": 2}, {"x": (None, 12)}, ArgumentError, r"MG0601.*argument 'x': f32\[\?,12\] lacks a size"),
        ({"0": 2}, {"x": (5, 12), "q": (1,)}, ArgumentError, "MG0601.*unknown argument 'q'"),
        ({"0": 2}, {"x": (5, 12), "w": (1, 1)}, ArgumentError, "MG0601.*'w'"),
    ],
)
def test_invalid_sizes_are_rejected_by_load_and_at(
    mesh: Any, args: Any, kind: type[MeshgenError], text: str, executable: OpenExecutable, path: Path
) -> None:
    with pytest.raises(kind, match=text):
        mg.load(path, mesh).at(args=args)
    with pytest.raises(kind, match=text):
        executable.at(mesh, args)


def test_size_dependent_properties_report_missing_sizes(tmp_path: Path) -> None:
    exe, module = mg.compile(PROGRAM, target="cpu"), mg.load(written(tmp_path / "m.mgx", []), {"0": 2})
    for read_property in (lambda: exe.comms, lambda: exe.plan, lambda: exe.fused, lambda: exe.explain("w")):
        with pytest.raises(ShardingError, match="MG0201"):
            read_property()
    for read_property in (lambda: module.schedule, lambda: module.inputs, lambda: module.kernel_names):
        with pytest.raises(ArgumentError, match=r"MG0601.*'x' is missing"):
            read_property()
    assert "compiled for no sizes" in repr(exe) and list(module.stages) == ["import"]


@pytest.mark.parametrize("name", LAUNCHERS)
def test_open_axis_is_derived_from_process_count(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in LAUNCHERS:
        monkeypatch.delenv(other, raising=False)
    assert mg.load(path).mesh.shape == (None, 2)
    monkeypatch.setenv(name, "6")
    assert mg.load(path).mesh.shape == (3, 2)
    # An explicit size takes precedence over the number of processes.
    assert mg.load(path, {"0": 5}).mesh.shape == (5, 2)
    assert mg.load(path, devices=4).mesh.shape == (2, 2)
    monkeypatch.setenv(name, "5")
    with pytest.raises(MissingError, match=r"MG0603.*5 devices do not fill.*5 % 2 = 1"):
        mg.load(path)


def test_equal_members_of_specializations_are_stored_once(tmp_path: Path) -> None:
    path = written(tmp_path / "m.mgx", [*SIZES, {"mesh": {"0": 4}, "args": {"x": (6, 12)}}], weights={"w": W})
    container_members = container.Container(path)
    contents = [bytes(container_members[name]) for name in container_members]
    assert len({*contents}) == len(contents)
    assert [name for name in container_members if name.endswith("weights.safetensors")] == ["weights.safetensors"]
    module = mg.load(path)
    assert isinstance(module, OpenModule)
    counts = [len(members) for members in module.program.held.values()]
    assert len(counts) == 3 and sum(counts) > len(contents)
    x = rows(6)
    for size in (2, 4, 7):
        np.testing.assert_array_equal(module.at({"0": size}, {"x": (6, 12)})(x)[1], -x)


def test_saved_module_bytes_are_deterministic(path: Path, tmp_path: Path) -> None:
    assert written(tmp_path / "again.mgx").read_bytes() == path.read_bytes()


def test_saved_weights_determine_open_sizes(tmp_path: Path) -> None:
    text = PROGRAM.replace("%w: tensor<12x8xf32>", "%w: tensor<?x?xf32>").replace("tensor<12x8xf32>) ->", "tensor<?x?xf32>) ->")  # fmt: skip
    exe, path = mg.compile(text, target="cpu"), tmp_path / "m.mgx"
    assert isinstance(exe, OpenExecutable)
    exe.specialize({"0": 2}, {"x": (6, 12), "w": (12, 8)})
    exe.save(path, weights={"w": W})
    module = mg.load(path, {"0": 2})
    assert isinstance(module, OpenModule) and module.program.shapes == ("x",)
    assert [module.at(args={"x": (n, 12)}).record()["specialised"]["made"] for n in (6, 7)] == [AHEAD, AT_LOAD]
    np.testing.assert_array_equal(module(rows(7))[1], -rows(7))
    for invalid_weights in ({"q": W}, {"w": W[:, 0]}, {"w": W.astype(np.float64)}, {"w": W[:, :7]}):
        with pytest.raises(ArgumentError, match="MG0601"):
            exe.save(path, weights=invalid_weights)
    closed = mg.compile(PROGRAM, {"0": 2, "1": 2}, target="cpu")
    closed.save(path, weights={"x": rows(3)})
    assert not isinstance(mg.load(path), OpenModule)
    np.testing.assert_array_equal(mg.load(path)(W)[1], -rows(3))


DEPLOYED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("xdsl", "triton", "jax", "scipy", "jinja2"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Refuse())
import numpy as np
import meshgen as mg
module = mg.load(sys.argv[1], {"0": 3})
x = np.ones((5, 12), np.float32)
assert (module(x, np.ones((12, 8), np.float32))[1] == -x).all()
try:
    module(x[:4], np.ones((12, 8), np.float32))
except mg.MeshgenError as error:
    print(error)
    sys.exit(error.exit_code)
"""


def test_specialization_runs_without_compiler_dependencies(path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    command = [sys.executable, "-c", DEPLOYED, str(path)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 5 and "0=3, x=4x12" in result.stdout and "'xdsl' is not installed" in result.stdout, (
        result
    )


def test_open_executable_keeps_result_structure() -> None:
    def step(x: Any) -> Any:
        return {"a": mg.tanh(x), "b": [x + 1]}

    exe = mg.compile(step, {"dp": None}, args=["f32[7,3]"], in_specs={"x": mg.P("dp")}, target="cpu", sizes=[{"mesh": {"dp": 2}}])  # fmt: skip
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    results = exe.at({"dp": 5})(x)
    np.testing.assert_array_equal(results["b"][0], x + 1)
    with pytest.raises(ShardingError, match="MG0201"):
        exe(x)


def test_dims_can_be_open_on_known_mesh(tmp_path: Path) -> None:
    exe = mg.compile(PROGRAM, {"0": 3, "1": 2}, target="cpu", args={"w": (12, 8)}, sizes=[{"args": [(6, 12)]}])
    exe.save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    assert isinstance(module, OpenModule) and not module.program.axes
    assert_correct_results(module, 6)
    assert_correct_results(module, 5)
    assert_correct_results(exe, 4)


def test_partly_open_shapes_are_checked_at_call(tmp_path: Path) -> None:
    text = PROGRAM.replace("%w: tensor<12x8xf32>", "%w: tensor<?x?xf32>").replace("tensor<12x8xf32>) ->", "tensor<?x?xf32>) ->")  # fmt: skip
    exe = mg.compile(text, target="cpu", args={"w": (None, 8)}, sizes=[{"mesh": {"0": 2}, "args": {"x": (6, 12), "w": (12, None)}}])  # fmt: skip
    exe.save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx", {"0": 2})
    assert_correct_results(module, 6)
    with pytest.raises(ArgumentError, match=r"MG0601.*'w' is f32\[\?,8\], not f32\[12,7\]"):
        module(rows(6), W[:, :7])
    with pytest.raises(ProgramError, match=r"MG0104.*dot_general"):
        module(rows(6), W[:11])


def test_open_sizes_on_several_meshes_are_specialized(tmp_path: Path) -> None:
    def stages(x: Any, w: Any) -> Any:
        return mg.annotate(mg.tanh(x), mg.P("dp", mesh="b")) @ w

    meshes = {"a": {"dp": None, "tp": 2}, "b": {"dp": None}}
    exe = mg.compile(stages, meshes, args=["f32[7,12]", "f32[12,8]"], in_specs={"x": mg.P("dp", mesh="a")}, target="cpu",
                     sizes=[{"mesh": {"a": {"dp": 2}, "b": {"dp": 3}}}])  # fmt: skip
    exe.save(tmp_path / "m.mgx")
    for a, b in ((2, 3), (1, 4)):
        module = mg.load(tmp_path / "m.mgx", {"a": {"dp": a}, "b": {"dp": b}})
        assert module.ranks == 2 * a + b
        assert module.record()["specialised"]["made"] == (AHEAD if (a, b) == (2, 3) else AT_LOAD)
        np.testing.assert_allclose(module(rows(7), W), np.tanh(rows(7).astype(np.float64)) @ W, rtol=0, atol=1e-5)
    with pytest.raises(ShardingError, match=r"MG0201.*'b:dp' is unknown"):
        mg.load(tmp_path / "m.mgx", {"a": {"dp": 2}})(rows(7), W)


@pytest.mark.parametrize("devices", [0, 3])
def test_device_count_that_does_not_fill_mesh_is_rejected(devices: int) -> None:
    mesh = mg.make_mesh({"x": 2, "y": None})
    with pytest.raises(MissingError, match=rf"MG0603.*{devices} devices do not fill"):
        bound([mesh], None, devices)
    assert bound([mesh], None, 6)[0].shape == (2, 3)
