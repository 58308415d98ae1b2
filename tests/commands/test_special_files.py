"""Devices and pipes instead of files. Every reader refuses them, because they may never end; only /dev/null is allowed,
because it is empty.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen.cli import main

PROGRAM = """sdy.mesh @m = <["x"=2]>
func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %b = stablehlo.tanh %a : tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("special")
    (folder / "p.mlir").write_text(PROGRAM)
    assert main(["compile", str(folder / "p.mlir"), "-o", str(folder / "p.mgx"), "--target", "cpu"]) == 0
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "check d.onnx --mesh x=2", "check d.pt2 --mesh x=2", "check p.mlir --machine d.json", "simulate p.mgx --machine d.json",
        "bench compare d.json d.json", "run p.mgx --weights d.safetensors", "run p.mgx --weights d.safetensors.index.json",
        "run p.mgx --weights d.pt2", "run d.mgx", "run p.mgx --verify-key d.pem", "compile p.mlir -o o.mgx --tuning d.json",
    ],
)  # fmt: skip
def test_device_is_refused_by_each_reader_of_files(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for word in {word for word in command.split() if word.startswith("d.")}:
        if not Path(word).is_symlink():
            Path(word).symlink_to("/dev/null")
    assert main(command.split()) == 2
    errors = capsys.readouterr().err
    assert "MG0002" in errors and "not a regular file" in errors


def test_empty_path_is_not_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["run", "p.mgx", "--weights", ""]) == 2
    assert "MG0001: expected a path" in capsys.readouterr().err
