"""Tests of error messages if CUDA or NCCL is missing, too old or fails, and of NCCL prototypes against `nccl.h`."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meshgen.ccl.nccl_types import DATA_TYPES, REDUCTIONS, Result
from meshgen.emulator.cuda.driver import EmulatedDriver
from meshgen.emulator.cuda.nccl import EmulatedNccl
from meshgen.errors import MissingError, RuntimeFailure
from meshgen.runtime.cuda import api, nccl
from meshgen.runtime.cuda.api import Api, emulated
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.nccl import PROTOTYPES, Nccl, load_nccl


def bindings(monkeypatch: pytest.MonkeyPatch, driver: Any) -> None:
    """Make `import cuda.bindings.driver` return `driver`, or raise `driver` if it is an ImportError."""

    def import_module(name: str) -> Any:
        if isinstance(driver, ImportError):
            raise driver
        return driver

    monkeypatch.setattr(importlib, "import_module", import_module)


def test_missing_cuda_bindings_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    bindings(monkeypatch, ImportError("no module"))
    with pytest.raises(
        MissingError, match=r"(?s)MG0602: the package cuda-bindings is not installed.*pip install 'cuda-bindings"
    ):
        api.real(1)


def test_missing_driver_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(flags: int) -> Any:
        raise RuntimeError("cuda is an NVIDIA driver library and can only be found via system search")

    bindings(monkeypatch, SimpleNamespace(cuInit=missing))
    with pytest.raises(
        MissingError, match=r"(?s)MG0602: NVIDIA's driver is missing: cuda is.*install NVIDIA's driver 525"
    ):
        api.real(1)


def test_machine_without_gpu_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "cuGetErrorName": lambda result: (0, b"CUDA_ERROR_NO_DEVICE"),
        "cuGetErrorString": lambda result: (0, b"no device"),
    }
    bindings(monkeypatch, SimpleNamespace(cuInit=lambda flags: (100,), **texts))
    with pytest.raises(MissingError, match="MG0602: cuInit failed with 100: CUDA_ERROR_NO_DEVICE, no device"):
        api.real(1)


def test_old_driver_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    bindings(monkeypatch, SimpleNamespace(cuInit=lambda flags: (0,), cuDriverGetVersion=lambda: (0, 11_080)))
    with pytest.raises(MissingError, match=r"MG0602: NVIDIA's driver is too old: it supports CUDA 11\.8"):
        api.real(1)


def test_too_few_gpus_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    bindings(monkeypatch, emulated(2, "sm_90").driver)
    assert api.real(2).cuda("cuDeviceGetCount") == 2
    with pytest.raises(MissingError, match="MG0603: the module needs 4 GPUs, but there are 2"):
        api.real(4)


def test_unknown_emulated_architecture_is_rejected() -> None:
    with pytest.raises(
        MissingError, match=r"(?s)MG0602: unknown architecture 'sm_75' of an emulated GPU.*sm_80, sm_90, sm_100"
    ):
        emulated(1, "sm_75")


def test_failed_cuda_call_reports_code_and_text() -> None:
    gpus = emulated(1, "sm_80")
    with pytest.raises(
        RuntimeFailure, match="MG0604: cuMemAlloc failed with 201: CUDA_ERROR_INVALID_CONTEXT, invalid device"
    ):
        gpus.cuda("cuMemAlloc", 16)
    device = Device(gpus, 0)
    with pytest.raises(RuntimeFailure, match="failed with 2: CUDA_ERROR_OUT_OF_MEMORY, out of memory"):
        gpus.cuda("cuMemAlloc", 1 << 40)
    with pytest.raises(RuntimeFailure, match="MG0604: GPU 0 cannot allocate the arena, 1100 GB: cuMem"):
        device.allocate(1 << 40, "arena")
    with pytest.raises(RuntimeFailure, match="MG0604: ncclGroupEnd failed with 5: invalid usage; ncclGroupEnd without"):
        gpus.comm("ncclGroupEnd")


def test_emulated_device_fault_is_reported_as_cause() -> None:
    device = Device(emulated(1, "sm_80"), 0)
    address = device.allocate(8, "small")
    with pytest.raises(RuntimeFailure, match="MG0608: address: 16 bytes at"):
        device.api.cuda("cuMemsetD8Async", address, 0, 16, device.streams[0])
        device.api.cuda("cuStreamSynchronize", device.streams[0])


def test_missing_nccl_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "_packaged", lambda: "/nowhere/libnccl.so.2")
    with pytest.raises(MissingError, match=r"(?s)MG0602: NCCL is missing or too old: .*nowhere.*pip install"):
        load_nccl()
    with pytest.raises(MissingError):
        Api(emulated(1, "sm_80").driver).comm("ncclGroupStart")


def test_old_nccl_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl.ctypes, "CDLL", lambda path: None)
    monkeypatch.setattr(nccl, "Nccl", lambda library: SimpleNamespace(ncclGetVersion=lambda: (0, 21_805)))
    with pytest.raises(MissingError, match=r"MG0602: NCCL 2\.18\.5 is too old: 2\.28\.0 or later is needed"):
        load_nccl()


def test_real_and_emulated_nccl_have_same_functions() -> None:
    """`InitRank` takes a communicator name in both. The real library gets the name in its configuration."""
    emulated_names = {name for name in dir(EmulatedNccl) if name.startswith("nccl")}
    real_names = set(PROTOTYPES) - {"ncclCommInitRankConfig"} | {n for n in dir(Nccl) if n.startswith("nccl")}
    assert emulated_names == real_names
    assert all(hasattr(EmulatedDriver, name) for name in ("cuLaunchKernel", "cuGraphLaunch"))


def header() -> str:
    """Return the text of `nccl.h` of the installed package, or skip the test."""
    spec = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    candidates = [
        Path(folder) / "include" / "nccl.h" for folder in (spec.submodule_search_locations or [] if spec else [])
    ]
    path = next((folder for folder in candidates if folder.is_file()), None)
    if path is None:
        pytest.skip("the package nvidia-nccl is not installed")
    return path.read_text()


C_KINDS = {"c_int": "int", "c_ulong": "size_t", "c_void_p": "pointer", "UniqueId": "id"}


def kind_of(parameter: str) -> str:
    if "*" in parameter or "ncclComm_t" in parameter or "cudaStream_t" in parameter:
        return "pointer"
    if "ncclUniqueId" in parameter:
        return "id"
    return "size_t" if "size_t" in parameter else "int"


@pytest.mark.parametrize("name", PROTOTYPES)
def test_nccl_prototype_matches_header(name: str) -> None:
    match = re.search(rf"^ncclResult_t\s+{name}\(([^)]*)\);", header(), re.MULTILINE)
    assert match, name
    header_types = [kind_of(parameter) for parameter in match[1].split(",") if parameter.strip() not in ("", "void")]
    assert header_types == [C_KINDS.get(parameter.__name__, "pointer") for parameter in PROTOTYPES[name]]


def test_nccl_constants_match_header() -> None:
    text = header()

    def number(name: str) -> int:
        match = re.search(rf"\b{name}\s*=\s*(\d+)", text)
        assert match, name
        return int(match[1])

    names = {"i8": "ncclInt8", "ui8": "ncclUint8", "i32": "ncclInt32", "ui32": "ncclUint32", "i64": "ncclInt64", "ui64": "ncclUint64",
             "f16": "ncclFloat16", "f32": "ncclFloat32", "f64": "ncclFloat64", "bf16": "ncclBfloat16",
             "f8E4M3FN": "ncclFloat8e4m3", "f8E5M2": "ncclFloat8e5m2"}  # fmt: skip
    assert {dtype: number(name) for dtype, name in names.items()} == DATA_TYPES
    reductions = {"sum": "ncclSum", "product": "ncclProd", "max": "ncclMax", "min": "ncclMin"}
    assert {kind: number(name) for kind, name in reductions.items()} == REDUCTIONS
    assert {result.name: number(result.name) for result in Result} == {result.name: int(result) for result in Result}


def test_real_nccl_accepts_calls_without_gpu() -> None:
    """Without a GPU, this covers the version, unique ids and error texts."""
    header()
    library = load_nccl()
    assert library.ncclGetVersion()[1] >= nccl.OLDEST
    result, id_ = library.ncclGetUniqueId()
    assert result == Result.ncclSuccess and len(id_) == 128
    assert library.ncclGetErrorString(Result.ncclInvalidUsage).startswith("invalid usage")
