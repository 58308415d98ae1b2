"""Launch counts of Inductor modules, and the table of them. To run the programs themselves, a build of PyTorch is
needed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.inductor import __main__ as command
from bench.inductor import no_device
from bench.inductor.__main__ import Row, table, with_case
from bench.inductor.count import Launches, launches_of

MODULE = """
triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
    triton_poi_fused_add_0.run(of, the, text)
''', device_str='cuda')
def benchmark(args):
    triton_poi_fused_add_0.run(*args)
class Runner:
    def call(self, args):
        a, b = args
        args.clear()
        with torch.cuda._DeviceGuard(0):
            c = empty_strided_cuda((8, 4), (4, 1), torch.float32)
            extern_kernels.mm(a, reinterpret_tensor(b, (4, 4), (1, 4), 0), out=c)
            stream0 = get_raw_stream(0)
            triton_poi_fused_add_0.run(c, 32, stream=stream0)
            triton_poi_fused_add_0.run(a, 32, stream=stream0)
            d = torch.ops.aten._flash.default(c, c)
            a.copy_(d[0])
        return (c,)
"""
ADD = """module @m {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %z = stablehlo.exponential %y : tensor<4xf32>
    return %z : tensor<4xf32>
  }
}
"""


def test_inductor_kernels_library_calls_and_copies_are_counted() -> None:
    launches = launches_of(MODULE)
    assert launches == Launches(2, Counter({"mm": 1, "_flash": 1, "copy_": 1}))
    assert (launches + launches).total == 10


def test_unknown_call_in_inductor_module_is_refused() -> None:
    with pytest.raises(ValueError, match="calls 'fallback'"):
        launches_of("def call(args):\n    fallback(args)\n")


def test_run_of_other_object_than_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match=r"calls 'loop\.run'"):
        launches_of("def call(args):\n    loop.run(args)\n")


def test_inductor_module_without_call_is_refused() -> None:
    with pytest.raises(ValueError, match="has 0"):
        launches_of("def run(args): ...\n")


def test_case_is_planned_on_one_device_and_on_its_mesh(tmp_path: Path) -> None:
    (tmp_path / "add.shardy.mlir").write_text(ADD)
    (tmp_path / "peers.json").write_text(json.dumps({"add": {"xla_gpu": {"kernels": 5}}}))
    row = Row("add, one module", Launches(), Launches())
    assert with_case(row, [tmp_path / "none", tmp_path]) == row._replace(one_device=1, per_device=2, xla=5)
    (tmp_path / "peers.json").unlink()
    assert with_case(row, [tmp_path]).xla is None


def test_program_without_mesh_or_case_has_fewer_figures(tmp_path: Path) -> None:
    (tmp_path / "add.mlir").write_text("\n".join(line for line in ADD.splitlines() if "sdy.mesh" not in line)
                                       .replace(' {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}', ""))  # fmt: skip
    assert with_case(Row("add", Launches(), Launches()), [tmp_path])[3:] == (1, None, None)
    assert with_case(Row("other", Launches(), Launches()), [tmp_path])[3:] == (None, None, None)


def test_inductor_table_names_calls_and_marks_missing_figures() -> None:
    library = Counter({"mm": 2, "_flash": 1})
    lines = table([Row("a", Launches(4, library), Launches(5), 3), Row("b", Launches(1), Launches(1), 1, 2, 9)])
    assert lines.splitlines()[2:] == [
        "| a | 4 | 1 `_flash`, 2 `mm` | 7 | 5 | 3 | - | - |",
        "| b | 1 | 0 | 1 | 1 | 1 | 2 | 9 |",
    ]


def test_inductor_command_without_torch_names_missing_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(no_device, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["bench.inductor", "folder"])
    assert command.main() == 5
    assert "not installed: torch, triton" in capsys.readouterr().err
