"""The kernels suite. Without a GPU it reports static records; on an emulated GPU it reports made-up times."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("triton")

import jax.numpy as jnp

import meshgen as mg
from meshgen.benchmarks.kernels import measure, suite
from meshgen.benchmarks.kernels.baselines import Torch, baseline
from meshgen.benchmarks.kernels.measure import Ceilings, Gpu
from meshgen.benchmarks.kernels.programs import PROGRAMS, SHAPES, Program, _array, product
from meshgen.benchmarks.kernels.static import compile_and_describe
from meshgen.benchmarks.nvml import Nvml
from meshgen.cli import main
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.errors import UsageError
from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.cuda.device import Launch
from meshgen.runtime.cuda.timing import Timing

SMALL = {
    "product-small": Program(product, (_array(128, 64), _array(64, 128))),
    "softmax-small": Program(lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), (_array(32, 64),)),
}


class Steady:
    """A timer that always reports 10 us with a warm cache and 20 us with a cold cache."""

    def seconds(self, launch: Launch) -> Timing:
        assert math.prod(launch.grid)
        return Timing(10e-6, 20e-6)


class Library:
    """Stand-in for NVIDIA's management library (NVML), which reports that the GPU is too hot."""

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> int:
            if name == "nvmlDeviceGetClockInfo":
                args[2]._obj.value = 1980 if args[1].value == 1 else 2619
            if name == "nvmlDeviceGetCurrentClocksThrottleReasons":
                args[1]._obj.value = 0x24
            return 0

        return call


class Tensor(np.ndarray):
    """A NumPy array with those methods of PyTorch tensors that the suite calls."""

    def double(self) -> Tensor:
        return self.astype(np.float64)

    def cpu(self) -> Tensor:
        return self

    cuda = cpu

    def numpy(self) -> np.ndarray[Any, Any]:
        return np.asarray(self)


class Event:
    """Stand-in for a CUDA event. The time between any two events is half a millisecond."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        """Do nothing."""

    synchronize = record

    def elapsed_time(self, end: Event) -> float:
        return 0.5


def fake_torch(factor: float = 1.0) -> Any:
    """Return a stand-in for the parts of PyTorch that the suite uses. Its matmul result is scaled by `factor`."""
    import ml_dtypes

    return SimpleNamespace(
        matmul=lambda x, w: (x.astype(np.float32) @ w.astype(np.float32)).view(Tensor) * factor,
        compile=lambda function: function,
        from_numpy=lambda array: array.view(Tensor),
        bfloat16=ml_dtypes.bfloat16,
        randn=lambda *sizes, **_: np.ones((2, 2)),
        cuda=SimpleNamespace(Event=Event, is_available=lambda: True),
        nn=SimpleNamespace(functional=SimpleNamespace()),
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, program in SMALL.items():
        monkeypatch.setitem(PROGRAMS, name, program)


def on_emulated(torch: Torch | None = None, nvml: Nvml | None = None, timer: Any = None) -> Gpu:
    return Gpu(emulated(1, "sm_90"), timer or (lambda *_: Steady()), torch, nvml, samples=3, copied=1 << 12)


def measure_program(gpu: Gpu, name: str, folder: Path) -> list[dict[str, Any]]:
    records = compile_and_describe(name, "cuda:sm_90", str(folder / "m.mgx"))
    return [
        dict(row)
        for row in measure.measure_program(gpu, mg.load(folder / "m.mgx"), records, Ceilings(1e12, 1e14, "given"))
    ]


def test_static_record_describes_the_built_kernel(tmp_path: Path) -> None:
    (kernel,) = compile_and_describe("product-1024x1024x1024", "cuda:sm_90", str(tmp_path / "m.mgx"))
    assert kernel["template"] == "dot" and kernel["spill_bytes"] == 0 and kernel["launches"] == 1
    assert kernel["units"].get("HGMMA", 0) > 0 and kernel["copies"]
    assert kernel["flops"] == 2 * 1024**3 and kernel["bytes"] == 3 * 2 * 1024**2
    assert 0.9 < kernel["sectors"] <= 1 and 0 < kernel["predicted_seconds"] < 1e-3
    assert json.loads(json.dumps(kernel)) == kernel


def test_kernels_command_without_gpu_reports_static_records(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "kernels", "product-small", "--target", "cuda:sm_80", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["target"] for row in document["records"]] == ["cuda:sm_80"] and "us" not in document["records"][0]


def test_programs_are_built_in_parallel_processes(capsys: pytest.CaptureFixture[str]) -> None:
    """Worker processes look up a program by its name in the suite, so the test uses programs of the suite."""
    assert (
        main(["bench", "kernels", "cast", "transpose", "--jobs", "2", "--target", "cuda:sm_80", "--format", "csv"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("kernels,")]
    assert lines[0].startswith("# command: meshgen bench kernels") and len(rows) == 2


def test_suite_has_twenty_shapes_and_its_programs_lower() -> None:
    assert len(set(SHAPES)) == 20
    for name in ("gated", "attention-gradient", "adamw", "look-up-gradient", "pooling", "top-k"):
        assert "func.func" in PROGRAMS[name].lowered().as_text()


def test_unknown_programs_and_open_sizes_are_refused(tmp_path: Path) -> None:
    assert main(["bench", "kernels", "no-such-program"]) == 2
    text = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}\n"
    (tmp_path / "open.mlir").write_text(f"shard.grid @m(shape = 2)\n{text}")
    with pytest.raises(UsageError, match="open sizes"):
        compile_and_describe(str(tmp_path / "open.mlir"), "cuda:sm_90", str(tmp_path / "m.mgx"))


def test_most_programs_have_pytorch_baselines() -> None:
    torch = SimpleNamespace(matmul=lambda x, w: x @ w, nn=SimpleNamespace(functional=SimpleNamespace()))
    without_baseline = {name for name in PROGRAMS if baseline(torch, name) is None}
    assert without_baseline == {
        "product-f8", "product-i8", "attention-gradient", "layer-norm-gradient", "adamw", "look-up-gradient", "convolution", "pooling", "top-k",
    }  # fmt: skip


def test_program_is_measured_on_gpu_beside_pytorch(small: None, tmp_path: Path) -> None:
    total, kernel = measure_program(on_emulated(Torch(fake_torch()), Nvml(Library())), "product-small", tmp_path)
    assert (kernel["us"], kernel["cold_us"], kernel["spread"], kernel["samples"]) == (10, 20, 0, 3)
    assert kernel["of_ceiling"] == pytest.approx(kernel["bytes"] / 1e12 / 10e-6, abs=1e-4)
    assert total["kernel"] == "(all)" and (total["us"], total["cold_us"], total["flops"]) == (10, 20, kernel["flops"])
    assert (total["against_us"], total["correct"]) == (500, True) and total["against"] in ("torch", "torch.compile")
    assert (total["sm_mhz"], total["memory_mhz"]) == (1980, 2619)
    assert total["throttled"] == "power cap, temperature (software)"


def test_wrong_kernel_result_is_reported(small: None, tmp_path: Path) -> None:
    total, *_ = measure_program(on_emulated(Torch(fake_torch(1.1))), "product-small", tmp_path)
    assert total["correct"] is False


def test_numpy_checks_results_without_pytorch(small: None, tmp_path: Path) -> None:
    total, *kernels = measure_program(on_emulated(), "softmax-small", tmp_path)
    assert total["correct"] is True and "against" not in total and "throttled" not in total
    assert total["launches"] == sum(row["launches"] for row in kernels)


def test_ceilings_are_measured_or_from_the_data_sheet() -> None:
    sheet = device_of("sm_90")
    ceilings = on_emulated().ceilings()
    assert (ceilings.bytes_per_second, ceilings.flops_per_second) == (sheet.bandwidth, sheet.peaks["bf16"])
    assert "data sheet" in ceilings.source
    torch = on_emulated(Torch(fake_torch())).ceilings()
    assert torch.flops_per_second == pytest.approx(2 * 8192**3 / 0.5e-3) and "cuBLAS" in torch.source


def test_kernels_command_measures_on_gpu(
    small: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On an emulated GPU, no time passes between the driver's events. Kernels for another architecture are not
    measured.
    """
    monkeypatch.setattr(suite, "_gpu", lambda: on_emulated(timer=measure.event_timer))
    assert main(["bench", "kernels", "product-small", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    first = document["records"][0]
    assert first["kernel"] == "(all)" and first["correct"] is True
    assert (
        document["environment"]["clocks"] == "not known without NVML" and "GB/s" in document["environment"]["ceilings"]
    )
    assert main(["bench", "kernels", "product-small", "--target", "cuda:sm_80", "--json"]) == 0
    assert "(all)" not in capsys.readouterr().out
