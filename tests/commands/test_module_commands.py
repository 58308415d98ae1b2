"""Commands on untrusted modules: a module cannot send control characters to the terminal, and every command terminates."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from meshgen.cli import main
from meshgen.commands.time_limit import time_limit
from meshgen.errors import RuntimeFailure
from meshgen.runtime.module_file.stage_texts import packed, stage_member
from tests.codegen.programs import mixed
from tests.codegen.test_package import code
from tests.runtime.module_files import saved
from tests.runtime.test_module_damage import forged

ENDLESS = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.while(%x = %a) : tensor<4xf32>
  cond {
    %go = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %y = stablehlo.tanh %x : tensor<4xf32>
    stablehlo.return %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
"""


def test_control_characters_of_a_module_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "m.mgx", mixed(), **code())

    def change(manifest: dict) -> None:
        manifest["schedule"][0]["why"] = "\x1b[2J"

    text = "// \x1b]0;owned\x07 \u202e\n\ttail é\n"
    path = str(forged(tmp_path / "m.mgx", change, {stage_member("partition"): packed(text)}))
    for words in (
        ["inspect", path, "--schedule"],
        ["inspect", path, "--stage", "partition"],
        ["run", path],
        ["diff", path, path],
    ):
        assert main(words) == 0
        shown = capsys.readouterr()
        assert not any(mark in shown.out + shown.err for mark in ("\x1b", "\x07", "\u202e"))
        assert "--stage" not in words or shown.out == "// \\x1b]0;owned\\x07 \\u202e\n\ttail é\n"


def test_inspect_lists_kernels_without_binary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "m.mgx", mixed(), **code())

    def change(manifest: dict) -> None:
        for kernel in list(manifest["kernels"].values())[1:]:
            kernel["binaries"] = {}

    path = str(forged(tmp_path / "m.mgx", change))
    assert main(["inspect", path]) == 0
    table = capsys.readouterr().out
    assert main(["inspect", path, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["kernel_list"]
    assert [bool(row["binaries"]) for row in rows] == [True] + [False] * (len(rows) - 1)
    assert all(row["name"] in table for row in rows) and len(rows) > 1


def test_time_limit_ends_an_endless_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.mlir").write_text(ENDLESS)
    path = str(tmp_path / "p.mgx")
    assert main(["compile", str(tmp_path / "p.mlir"), "--mesh", "a=2", "--target", "cpu", "-o", path]) == 0
    assert main(["run", path, "--time-limit", "0.2"]) == 4
    assert "MG0604: the step takes more than 0.2 s" in capsys.readouterr().err
    assert main(["run", path, "--time-limit", "never"]) == 2


def test_time_limit_raises_again_if_its_exception_is_dropped() -> None:
    """Python drops an exception that a signal handler raises during a weak reference's callback. So the time limit
    raises its exception repeatedly.
    """
    with pytest.raises(RuntimeFailure, match="the step takes more than"), time_limit(0.01):
        with suppress(RuntimeFailure):
            time.sleep(60)
        time.sleep(60)


@pytest.mark.parametrize("command", ["inspect", "diff"])
def test_inspect_and_diff_need_no_rank(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "m.mgx", mixed())
    path = str(tmp_path / "m.mgx")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([command, path, *([path] if command == "diff" else [])]) == 0
    assert main(["run", path]) == 2  # MG0611: a process that runs this module must know its rank
