"""Arrays of other libraries, in and out without a copy: DLPack, and CUDA's array interface on emulated GPUs."""

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
    """An array of a library that knows DLPack only."""

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
    """An array of a GPU library: memory of an emulated device."""

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
def test_arrays_of_every_type_come_in_without_a_copy(kind: Any) -> None:
    array = normal(3, 4).astype(kind)
    found = on_host(Foreign(array))
    assert found.dtype == array.dtype and found.shape == (3, 4) and np.shares_memory(found, array)
    assert found.tobytes() == array.tobytes()


def test_turned_and_empty_arrays_come_in(tmp_path: Path) -> None:
    array = normal(3, 4)
    turned = on_host(Foreign(array.reshape(4, 3), strides=(1, 4)))
    assert np.array_equal(turned, array.T) and np.shares_memory(turned, array)
    assert on_host(Foreign(np.zeros((0, 3), np.float32))).shape == (0, 3)
    assert on_host(Foreign(np.array(2.5))) == 2.5


@pytest.mark.usefixtures("few_objects")
def test_capsules_are_given_back() -> None:
    array = np.arange(4, dtype=np.float32)
    before = len(dlpack._EXPORTED)
    found = on_host(Foreign(array))
    assert len(dlpack._EXPORTED) == before + 1, "it is in use"
    part = found[1:]
    del found
    gc.collect()
    assert part.tolist() == [1, 2, 3] and len(dlpack._EXPORTED) == before + 1
    del part
    capsule = Foreign(array).__dlpack__()
    del capsule
    gc.collect()
    assert len(dlpack._EXPORTED) == before


def test_what_is_no_array_of_the_host_stays_as_it_is() -> None:
    away = Foreign(np.zeros(3), device=(CUDA, 0))
    for given in (3, "x", [1.0], np.zeros(2), away):
        assert on_host(given) is given
    assert memory_of(object()) is None
    assert (
        memory_of(type("T", (), {"__cuda_array_interface__": {"data": (0, False), "typestr": "<M8[s]", "shape": ()}})())
        is None
    )


def test_results_of_the_host_go_out_without_a_copy(tmp_path: Path) -> None:
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
        for refused in ({"copy": True}, {"dl_device": (CUDA, 0)}):
            with pytest.raises(BufferError):
                shard.__dlpack__(**refused)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_arrays_of_torch_and_jax(name: str, tmp_path: Path) -> None:
    library = pytest.importorskip("jax.numpy" if name == "jax" else name)
    given = library.asarray(x)
    with mg.load(saved(tmp_path, TWO)).session(weights={"w": library.asarray(w)}) as session:
        assert close(session.prefill(given), WX)
        assert np.shares_memory(on_host(given), on_host(given))
    narrow = library.asarray(x).astype("bfloat16") if name == "jax" else given.bfloat16()
    assert on_host(narrow).dtype == ml_dtypes.bfloat16


# --- memory of the session's arguments ----------------------------------------------------------------------------------


@pytest.fixture(params=["reference", GPUS], ids=["host", "gpus"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    with mg.load(saved(tmp_path, TWO, ROWS)).session(request.param, weights={"w": w}) as made:
        yield made


def local(session: Session, rank: int, array: Array) -> Any:
    """An array on the device of a rank."""
    devices = session._devices
    return array if isinstance(devices, HostDevices) else OnGpu(devices, rank, array)  # type: ignore[arg-type]


def content(session: Session, array: Any) -> Array:
    if isinstance(array, np.ndarray):
        return array
    devices: Any = session._devices
    return devices.devices[array.device.id].download(array.address, np.empty(array.shape, np.float32))


def test_memory_of_other_libraries_is_used_and_updated(session: Session) -> None:
    session["s"] = np.zeros((8, 6), np.float32)
    session.decode(x)
    session.decode(x)  # by its graph
    mine = [local(session, rank, np.full((4, 6), 10.0, np.float32)) for rank in range(2)]
    assert session.bind("s", mine) == [True, True]
    for count in (1, 2):
        assert close(session.decode(x), -WX)
        assert close(session["s"], 10 + count * WX)
        assert close(np.concatenate([content(session, each) for each in mine]), 10 + count * WX)
    weights = [local(session, rank, 2 * w[4 * rank : 4 * rank + 4]) for rank in range(2)]
    assert session.bind("w", weights) == [True, True]
    assert close(session.prefill(x), 2 * WX) and close(session.decode(x), -2 * WX)


def test_what_does_not_fit_is_copied(session: Session) -> None:
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


def test_only_local_arrays_of_all_ranks_are_bound(session: Session) -> None:
    for wrong in ([w[:4]], [w[:4], w], [w], [3, 4]):
        with pytest.raises(ArgumentError, match=r"MG0601: 'w' is f32\[4,4\] on each rank"):
            session.bind("w", wrong)


def test_memory_that_kernels_cannot_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshgen.runtime.cuda.devices.code_of", lambda *args: lambda name, capability: None)
    with mg.load(saved(tmp_path, TWO, ROWS)).session(GPUS, weights={"w": w}) as session:
        devices: Any = session._devices
        kind = mg.load(tmp_path / "m.mgx").schedule.buffers[0].type
        tile = w[:4]
        fitting = OnGpu(devices, 0, tile)
        assert devices.bind(kind, 0, fitting).address == fitting.address
        wrong = {
            "misaligned": OnGpu(devices, 0, tile, shift=16),
            "on another device": OnGpu(devices, 1, tile),
            "of another type": OnGpu(devices, 0, tile.astype(np.int32)),
            "of another shape": OnGpu(devices, 0, tile.reshape(2, 8)),
            "turned": OnGpu(devices, 0, tile, strides=(4, 16)),
            "read only": OnGpu(devices, 0, tile, data=(fitting.address, True)),
            "of the host": Foreign(tile),
            "no array": 3,
        }
        assert [name for name, each in wrong.items() if devices.bind(kind, 0, each) is not None] == []


def test_results_on_gpus_say_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
