"""Tests of zero-copy exchange of arrays with other libraries: DLPack, and the CUDA array interface on emulated GPUs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ArgumentError
from meshgen.runtime import dlpack
from meshgen.runtime.cuda.devices import GpuDevices
from meshgen.runtime.dlpack import CPU, CUDA, Memory, capsule_of, memory_of, on_host
from meshgen.runtime.sessions.devices import HostDevices
from meshgen.runtime.sessions.session import Session
from tests.runtime.module_files import normal
from tests.runtime.test_session import GPUS, ROWS, TWO, WX, close, saved, w, x

Array = np.ndarray[Any, Any]


class Foreign:
    """An array of a library that supports only DLPack."""

    def __init__(
        self, array: Array, strides: tuple[int, ...] | None = None, device: tuple[int, int] = (CPU, 0)
    ) -> None:
        self.array, self.strides, self.device = array, strides, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        shape, address = self.array.shape, self.array.ctypes.data
        return capsule_of(Memory(address, shape, self.array.dtype, self.strides, self.device, False, self.array))


class OnGpu:
    """An array of a GPU library in the memory of an emulated device."""

    def __init__(self, devices: GpuDevices, rank: int, array: Array, shift: int = 0, **changes: Any) -> None:
        device = devices.devices[rank]
        address = device.allocate(array.nbytes + shift, "of another library") + shift
        device.upload(address, array)
        self.device, self.shape, self.address = type("D", (), {"id": rank})(), array.shape, address
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (address, False), "strides": None, "version": 3,
        } | changes  # fmt: skip


KINDS = [np.float32, np.float64, np.int8, np.uint16, np.complex64, np.bool_, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: np.dtype(kind).name)
def test_dlpack_import_of_every_dtype_is_zero_copy(kind: Any) -> None:
    array = normal(3, 4).astype(kind)
    imported = on_host(Foreign(array))
    assert imported.dtype == array.dtype and imported.shape == (3, 4) and np.shares_memory(imported, array)
    assert imported.tobytes() == array.tobytes()


def test_dlpack_imports_strided_empty_and_scalar_arrays(tmp_path: Path) -> None:
    array = normal(3, 4)
    transposed = on_host(Foreign(array.reshape(4, 3), strides=(1, 4)))
    assert np.array_equal(transposed, array.T) and np.shares_memory(transposed, array)
    assert on_host(Foreign(np.zeros((0, 3), np.float32))).shape == (0, 3)
    assert on_host(Foreign(np.array(2.5))) == 2.5


@pytest.mark.usefixtures("few_objects")
def test_dlpack_capsules_are_released() -> None:
    array = np.arange(4, dtype=np.float32)
    before = len(dlpack._EXPORTED)
    imported = on_host(Foreign(array))
    assert len(dlpack._EXPORTED) == before + 1, "it is in use"
    part = imported[1:]
    del imported
    gc.collect()
    assert part.tolist() == [1, 2, 3] and len(dlpack._EXPORTED) == before + 1
    del part
    capsule = Foreign(array).__dlpack__()
    del capsule
    gc.collect()
    assert len(dlpack._EXPORTED) == before


def test_on_host_returns_other_objects_unchanged() -> None:
    on_gpu = Foreign(np.zeros(3), device=(CUDA, 0))
    for value in (3, "x", [1.0], np.zeros(2), on_gpu):
        assert on_host(value) is value
    assert memory_of(object()) is None
    assert (
        memory_of(type("T", (), {"__cuda_array_interface__": {"data": (0, False), "typestr": "<M8[s]", "shape": ()}})())
        is None
    )


def test_host_results_are_exported_without_copy(tmp_path: Path) -> None:
    with mg.load(saved(tmp_path, TWO)).session(weights={"w": w}) as session:
        result = session.prefill(x)
        assert isinstance(result, mg.ShardedArray)
        parts = [np.from_dlpack(shard) for shard in result.shards]
        assert close(np.concatenate(parts), WX) and len(parts) == 2
        again = session.prefill(2 * x)
        assert close(np.concatenate(parts), 2 * WX), "it is the memory that the next step writes"
        assert isinstance(again, mg.ShardedArray)
        (shard, _) = again.shards
        assert shard.shape == (4, 6) and not hasattr(shard, "__cuda_array_interface__")
        for unsupported in ({"copy": True}, {"dl_device": (CUDA, 0)}):
            with pytest.raises(BufferError):
                shard.__dlpack__(**unsupported)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_session_accepts_torch_and_jax_arrays(name: str, tmp_path: Path) -> None:
    library = pytest.importorskip("jax.numpy" if name == "jax" else name)
    library_array = library.asarray(x)
    with mg.load(saved(tmp_path, TWO)).session(weights={"w": library.asarray(w)}) as session:
        assert close(session.prefill(library_array), WX)
        assert np.shares_memory(on_host(library_array), on_host(library_array))
    narrow = library.asarray(x).astype("bfloat16") if name == "jax" else library_array.bfloat16()
    assert on_host(narrow).dtype == ml_dtypes.bfloat16


# --- caller-owned memory for the session's arguments
# -----------------------------------------------------------------------


@pytest.fixture(params=["reference", GPUS], ids=["host", "gpus"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    with mg.load(saved(tmp_path, TWO, ROWS)).session(request.param, weights={"w": w}) as open_session:
        yield open_session


def local(session: Session, rank: int, array: Array) -> Any:
    """Return the array in the memory of the device that `rank` uses."""
    devices = session._devices
    return array if isinstance(devices, HostDevices) else OnGpu(devices, rank, array)  # type: ignore[arg-type]


def content(session: Session, array: Any) -> Array:
    if isinstance(array, np.ndarray):
        return array
    devices: Any = session._devices
    return devices.devices[array.device.id].download(array.address, np.empty(array.shape, np.float32))


def test_bound_memory_is_used_and_updated_in_place(session: Session) -> None:
    session["s"] = np.zeros((8, 6), np.float32)
    session.decode(x)
    session.decode(x)  # the second step replays the captured graph
    tiles = [local(session, rank, np.full((4, 6), 10.0, np.float32)) for rank in range(2)]
    assert session.bind("s", tiles) == [True, True]
    for count in (1, 2):
        assert close(session.decode(x), -WX)
        assert close(session["s"], 10 + count * WX)
        assert close(np.concatenate([content(session, tile) for tile in tiles]), 10 + count * WX)
    weights = [local(session, rank, 2 * w[4 * rank : 4 * rank + 4]) for rank in range(2)]
    assert session.bind("w", weights) == [True, True]
    assert close(session.prefill(x), 2 * WX) and close(session.decode(x), -2 * WX)


def test_bind_copies_unsuitable_memory(session: Session) -> None:
    tiles = [w[:4], w[4:]]
    devices: Any = session._devices
    if isinstance(devices, HostDevices):
        other = [np.asfortranarray(tiles[0]), tiles[1].copy()]
    else:
        other = [tiles[0], OnGpu(devices, 1, tiles[1])]
    assert session.bind("w", [2 * other[0], other[1]]) == [
        isinstance(devices, HostDevices) and (2 * other[0]).flags.c_contiguous,
        True,
    ]
    assert close(session.prefill(x), np.concatenate([2 * WX[:4], WX[4:]]))


def test_bind_requires_local_array_of_every_rank(session: Session) -> None:
    for wrong in ([w[:4]], [w[:4], w], [w], [3, 4]):
        with pytest.raises(ArgumentError, match=r"MG0601: 'w' is f32\[4,4\] on each rank"):
            session.bind("w", wrong)


def test_gpu_bind_rejects_memory_unusable_by_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    with mg.load(saved(tmp_path, TWO, ROWS)).session(GPUS, weights={"w": w}) as session:
        devices: Any = session._devices
        kind = mg.load(tmp_path / "m.mgx").schedule.buffers[0].type
        tile = w[:4]
        fitting = OnGpu(devices, 0, tile)
        assert devices.bind(kind, 0, fitting).address == fitting.address
        unusable = {
            "misaligned": OnGpu(devices, 0, tile, shift=16),
            "on another device": OnGpu(devices, 1, tile),
            "of another type": OnGpu(devices, 0, tile.astype(np.int32)),
            "of another shape": OnGpu(devices, 0, tile.reshape(2, 8)),
            "turned": OnGpu(devices, 0, tile, strides=(4, 16)),
            "read only": OnGpu(devices, 0, tile, data=(fitting.address, True)),
            "of the host": Foreign(tile),
            "no array": 3,
        }
        assert [name for name, array in unusable.items() if devices.bind(kind, 0, array) is not None] == []


def test_gpu_results_expose_device_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    with mg.load(saved(tmp_path, TWO, ROWS)).session(GPUS, weights={"w": w}) as session:
        result: Any = session.prefill(x)
        for rank, shard in enumerate(result.shards):
            interface = shard.__cuda_array_interface__
            assert (
                interface["shape"] == (4, 6)
                and interface["typestr"] == "<f4"
                and shard.__dlpack_device__() == (CUDA, rank)
            )
            memory: Any = memory_of(shard)
            assert (
                memory.address == interface["data"][0] and memory.dtype == np.float32 and memory.device == (CUDA, rank)
            )
        assert close(result, WX)
