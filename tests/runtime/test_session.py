"""Tests of sessions, on the host and on emulated or real GPUs.

Weights and state stay on the devices, and entry functions share them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ArgumentError, UsageError
from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.module_file import tensors
from meshgen.runtime.sessions.session import Session
from meshgen.runtime.sessions.weights import WeightFiles
from tests.runtime.cuda.steps import REAL, inspects_emulated_gpus, require_gpus, save
from tests.runtime.module_files import normal

W, X = "tensor<8x4xf32>", "tensor<4x6xf32>"
DOT = f"%y = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : ({W}, {X}) -> tensor<8x6xf32>"
ROWS = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
COLUMNS = ROWS.replace('{"x"}, {}', '{}, {"x"}')
# decode updates the running sum s in place. prefill has the same weights; their sharding replaces the word PREFILL.
TWO = f"""sdy.mesh @mesh = <["x"=2]>
func.func public @prefill(%w: {W} PREFILL, %x: {X}) -> tensor<8x6xf32> {{
  {DOT}
  return %y : tensor<8x6xf32>
}}
func.func public @decode(%w: {W} {ROWS}, %x: {X}, %s: tensor<8x6xf32> {{tf.aliasing_output = 1 : i32, {ROWS[1:]}) -> (tensor<8x6xf32>, tensor<8x6xf32>) {{
  {DOT}
  %z = stablehlo.add %y, %s : tensor<8x6xf32>
  %t = stablehlo.negate %y : tensor<8x6xf32>
  return %t, %z : tensor<8x6xf32>, tensor<8x6xf32>
}}
"""
w, x = normal(8, 4), normal(4, 6, seed=1)
WX = w @ x
GPUS = "cuda" if REAL else Emulation(arch="sm_80", races=True, order=2)
MOST_RANKS = 3  # the most ranks that a program in this file has


def saved(folder: Path, text: str, prefill: str = ROWS, **options: Any) -> Path:
    save(folder / "m.mgx", text.replace("PREFILL", prefill), **options)
    return folder / "m.mgx"


@pytest.fixture(params=["reference", GPUS], ids=["host", "gpus"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The reference device or GPUs. Modules have kernel code only for real GPUs; emulated ones interpret kernel bodies."""
    if request.param == "cuda":
        require_gpus(MOST_RANKS)
    else:
        monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    return request.param


@pytest.fixture
def session(device: Any, tmp_path: Path) -> Iterator[Session]:
    with mg.load(saved(tmp_path, TWO)).session(device, weights={"w": w}) as open_session:
        yield open_session


def close(result: Any, expected: Any) -> bool:
    return np.allclose(np.asarray(result), expected, rtol=1e-5, atol=1e-5)


def test_session_state_is_updated_in_place(session: Session) -> None:
    assert [*session.state] == ["s"] and session.copies == {}
    session["s"] = np.zeros((8, 6), np.float32)
    for count in (1, 2, 3):
        assert close(session.decode(x), -WX)
        assert close(session["s"], count * WX)
    assert close(session.run("decode", x, s=np.ones((8, 6), np.float32)), -WX)
    assert close(session["s"], 1 + WX)


def test_result_of_one_function_is_argument_of_next(session: Session) -> None:
    session["s"] = session.prefill(x)
    session.decode(x)
    assert close(session["s"], 2 * WX)
    session.decode(x, s=session.prefill(x))
    assert close(session["s"], 2 * WX)


def test_result_is_invalid_after_next_step(session: Session) -> None:
    first = session.prefill(x)
    assert isinstance(first, mg.ShardedArray) and first.shape == (8, 6) and first.dtype == np.float32
    second = session.prefill(2 * x)
    with pytest.raises(UsageError, match=r"MG0001.*overwritten the memory"):
        first.numpy()
    assert close(second, 2 * WX)


def test_session_rejects_mismatched_arguments(session: Session) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)MG0601: 's' has no value yet.*session\[name\] = array"):
        session.decode(x)
    with pytest.raises(ArgumentError, match=r"(?s)MG0601: argument 'x' is missing.*unknown argument 'y'"):
        session.decode(y=x)
    with pytest.raises(
        ArgumentError, match=r"MG0601: argument 'x' has type f32\[4,5\], but the program takes f32\[4,6\]"
    ):
        session.decode(x[:, :5])
    with pytest.raises(ArgumentError, match=r"MG0601: 's' has type f64\[8,6\], but the program takes f32\[8,6\]"):
        session["s"] = np.zeros((8, 6))
    with pytest.raises(UsageError, match=r"MG0001: unknown argument 'ss'; did you mean 's'"):
        session["ss"] = x
    with pytest.raises(UsageError, match=r"MG0001: 's' has no value yet"):
        _ = session["s"]
    with pytest.raises(UsageError, match=r"MG0001.*2 entry functions: prefill, decode"):
        session(x)
    with pytest.raises(UsageError, match=r"MG0001: unknown entry function 'decide'"):
        session.run("decide", x)
    with pytest.raises(AttributeError, match="unknown entry function 'decide'"):
        session.decide(x)


def test_closed_session_rejects_use(session: Session) -> None:
    result = session.prefill(x)
    session.close()
    session.close()
    for use in (lambda: session.prefill(x), lambda: session["s"], lambda: np.asarray(result)):
        with pytest.raises(UsageError, match=r"MG0001"):
            use()


def test_weights_in_two_layouts_are_stored_twice(device: Any, tmp_path: Path) -> None:
    path = saved(tmp_path, TWO, COLUMNS)
    with mg.load(path).session(device, weights={"w": w, "s": np.zeros((8, 6), np.float32)}) as session:
        assert session.copies == {"w": 2}
        assert close(session.prefill(x), WX) and close(session.decode(x), -WX)
        session["w"] = 2 * w
        assert close(session.prefill(x), 2 * WX) and close(session.decode(x), -2 * WX)
        assert close(session["s"], 3 * WX)


def test_state_in_two_layouts_is_converted_on_host(device: Any, tmp_path: Path) -> None:
    text = f"""sdy.mesh @mesh = <["x"=2]>
    func.func @up(%s: {W} {{tf.aliasing_output = 0 : i32, {ROWS[1:]}) -> {W} {{
      %t = stablehlo.add %s, %s : {W}
      return %t : {W}
    }}
    func.func @turn(%s: {W} {{tf.aliasing_output = 0 : i32, {COLUMNS[1:]}) -> {W} {{
      %t = stablehlo.negate %s : {W}
      return %t : {W}
    }}
    """
    with mg.load(saved(tmp_path, text)).session(device) as session:
        session["s"] = w
        for entry in ("up", "turn", "turn", "up", "turn"):
            assert session.run(entry) is None
        assert session.copies == {"s": 2} and close(session["s"], -4 * w)


def test_state_that_cannot_be_overwritten_is_copied(device: Any, tmp_path: Path) -> None:
    """Two arguments swap their values, and the third is reversed: the program writes it at other indices than it reads."""
    text = f"""func.func @main(%a: {W} {{tf.aliasing_output = 0 : i32}}, %b: {W} {{tf.aliasing_output = 1 : i32}}, %c: {W} {{tf.aliasing_output = 2 : i32}}) -> ({W}, {W}, {W}) {{
      %r = stablehlo.reverse %c, dims = [0] : {W}
      return %b, %a, %r : {W}, {W}, {W}
    }}
    """
    with mg.load(saved(tmp_path, text)).session(device) as session:
        for name, value in zip("abc", (w, 2 * w, 3 * w), strict=True):
            session[name] = value
        session()
        assert close(session["a"], 2 * w) and close(session["b"], w) and close(session["c"], 3 * w[::-1])
        session()
        assert close(session["a"], w) and close(session["b"], 2 * w) and close(session["c"], 3 * w)


def test_session_supports_uneven_tiles_and_global_arguments(device: Any, tmp_path: Path) -> None:
    text = f"""sdy.mesh @mesh = <["x"=3]>
    func.func @main(%s: tensor<8x4xf32> {{tf.aliasing_output = 0 : i32, {ROWS[1:]}, %g: tensor<8x4xf32>) -> tensor<8x4xf32> {{
      %t = stablehlo.add %s, %g : tensor<8x4xf32>
      return %t : tensor<8x4xf32>
    }}
    """
    for arguments in ("local", "global"):
        with mg.load(saved(tmp_path, text, arguments=arguments)).session(device) as session:
            session["s"] = w
            assert session(w) is None and session(w) is None
            assert close(session["s"], 3 * w)
            assert session.copies == (
                {} if arguments == "local" else {"s": 2}
            )  # each device holds a copy of the global array, and separately its own rows


def test_host_driven_loop_keeps_session_state(device: Any, tmp_path: Path) -> None:
    from tests.codegen.test_donated import LOOP

    with mg.load(saved(tmp_path, LOOP)).session(device) as session:
        s = normal(16, 8)
        session["w"] = s
        for trips in (1, 2):
            session(np.int32(trips))
        assert np.allclose(session["w"], np.tanh(np.tanh(np.tanh(s))), rtol=1e-5)


# --- weights ------------------------------------------------------------------------------------------------------------


class Watched(np.ndarray[Any, Any]):
    """An array that records how many of its bytes are read."""

    read: list[int]

    def __getitem__(self, key: Any) -> Any:
        part = np.asarray(self)[key]
        Watched.read.append(part.nbytes)
        return part


def test_each_rank_reads_its_slice_of_weight_file(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "w.safetensors"
    file.write_bytes(tensors.encode({"w": w}))
    module, read_tensor = mg.load(saved(tmp_path, TWO)), WeightFiles.__getitem__
    assert not WeightFiles([file])["w"].flags.writeable
    monkeypatch.setattr(WeightFiles, "__getitem__", lambda self, name: read_tensor(self, name).view(Watched))
    monkeypatch.setattr(
        "meshgen.runtime.sessions.weights.array_of", lambda name, value: (value, "")
    )  # the original `asarray` would drop this subclass
    for files in (file, str(file), tmp_path, [file]):
        Watched.read = []
        with module.session(device, weights=files) as session:
            assert close(session.prefill(x), WX)
        assert Watched.read == [w.nbytes // 2] * 2, "each rank its rows, once for both functions"


def test_session_uses_weights_stored_in_module(device: Any, tmp_path: Path) -> None:
    save(tmp_path / "m.mgx", TWO.replace("PREFILL", ROWS), weights={"w": w})
    with mg.load(tmp_path / "m.mgx").session(device) as session:
        assert close(session.prefill(x), WX)
    with mg.load(tmp_path / "m.mgx").session(device, weights={"w": 2 * w}) as session:
        assert close(session.prefill(x), 2 * WX)


def test_session_rejects_mismatched_weights(tmp_path: Path) -> None:
    module = mg.load(saved(tmp_path, TWO))
    for weights, message in (
        ({"ww": w}, r"MG0601: the weights have tensors that the program does not take: 'ww' \(did you mean 'w'"),
        ({"w": w[:4]}, r"MG0601: weight 'w' has type f32\[4,4\], but the program takes f32\[8,4\]"),
        ({"w": w.astype(np.float64)}, r"MG0601: weight 'w' has type f64\[8,4\]"),
        (3, r"MG0601: weights must be a dict by name, got int"),
    ):
        with pytest.raises(ArgumentError, match=message):
            module.session(weights=weights)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"MG0002.*No such file"):
        module.session(weights=tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(UsageError, match=r"MG0002.*cannot be read as safetensors"):
        module.session(weights=tmp_path / "bad.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(tensors.encode({"w": w}).replace(b"F32", b"F99"))
    with pytest.raises(UsageError, match=r"MG0002: tensor 'w' cannot be read"):
        module.session(weights=tmp_path / "bad.safetensors")
    (tmp_path / "one.safetensors").write_bytes(tensors.encode({"w": w}))
    with pytest.raises(UsageError, match=r"MG0002.*is in an earlier file"):
        module.session(weights=[tmp_path / "one.safetensors"] * 2)
    with pytest.raises(UsageError, match=r"MG0001: unknown device 'tpu'"):
        module.session("tpu")


def test_session_is_rejected_in_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = mg.load(saved(tmp_path, TWO))
    monkeypatch.setattr("meshgen.runtime.processes.bootstrap.world", lambda *args: SimpleNamespace(size=4))
    with pytest.raises(UsageError, match=r"MG0001: a session runs all ranks in one process, but a launcher started 4"):
        module.session()


class Counted:
    """A driver that records the calls of its functions."""

    def __init__(self, driver: Any) -> None:
        self._driver, self.calls = driver, list[str]()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._driver, name)
        return (lambda *args: (self.calls.append(name), attribute(*args))[1]) if name.startswith("cu") else attribute


@inspects_emulated_gpus
def test_session_restores_context_and_frees_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another library, such as PyTorch, may own the current context. Steps may be interrupted, and sessions may fail."""
    monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    gpus = emulated(2, "sm_90")
    monkeypatch.setattr("meshgen.runtime.sessions.session_devices._GPUS", {"emulate": lambda *_: gpus})
    caller_context = gpus.cuda("cuDevicePrimaryCtxRetain", 1)
    gpus.cuda("cuCtxSetCurrent", caller_context)
    module = mg.load(saved(tmp_path, TWO))
    session = module.session("emulate", weights={"w": w})
    for _ in range(3):
        session["s"] = session.prefill(x)
        assert close(session["s"], WX) and gpus.cuda("cuCtxGetCurrent") == caller_context
    monkeypatch.setattr("meshgen.runtime.cuda.devices.GpuSteps.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.prefill(x)
    assert gpus.machine and gpus.machine.memory.live == () and gpus.cuda("cuCtxGetCurrent") == caller_context
    with pytest.raises(ArgumentError):
        module.session("emulate", weights={"w": w[:4]})
    assert gpus.machine.memory.live == () and gpus.cuda("cuCtxGetCurrent") == caller_context


def interrupted(steps: object) -> None:
    raise KeyboardInterrupt


@inspects_emulated_gpus
def test_session_step_is_one_graph_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph covers all ranks. During its launch its context is current, and the host does not allocate or wait."""
    monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    weights = {"w": w, "x": x, "s": np.zeros((8, 6), np.float32)}
    with mg.load(saved(tmp_path, TWO)).session(GPUS, weights=weights) as session:
        devices: Any = session._devices
        counted = devices.api.driver = Counted(devices.api.driver)
        session.decode()
        session.prefill()  # each function captures its own graph
        counted.calls.clear()
        session.run("decode")
        result = session.run("decode")
        calls = list(counted.calls)
        assert close(result, -WX) and close(session["s"], 3 * WX)
    assert calls == ["cuCtxGetCurrent", "cuCtxSetCurrent", "cuGraphLaunch", "cuCtxSetCurrent"] * 2
