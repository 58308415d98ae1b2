"""Where packages are missing: commands do without, or say at once which one they need and how to get it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshgen.cli import main
from meshgen.commands.packages import EXTRAS, NEEDS, install_line

PROGRAM = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.tanh %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
MESH = ["--mesh", "a=2", "--target", "cpu"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.mlir").write_text(PROGRAM)
    return tmp_path


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)


def test_doctor_runs_without_anything(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("numpy", "ml_dtypes", "xdsl", "triton", "jinja2", "scipy"):
        without(name, monkeypatch)
    monkeypatch.setitem(NEEDS, "no-such-package", ("nothing", "pip install no-such-package"))
    assert main(["doctor"]) == 5
    out, err = capsys.readouterr()
    assert "pip install no-such-package" in out and "missing: no-such-package" in err


def test_a_command_says_what_it_needs(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without("jinja2", monkeypatch)
    assert main(["report", "p.mlir", *MESH, "-o", "r.html"]) == 5
    err = capsys.readouterr().err
    assert "error MG0602: the Python package 'jinja2' is not installed" in err and install_line("jinja2") in err
    assert "meshgen doctor" in err and not (place / "r.html").exists()


def test_a_compiler_that_is_not_installed_is_missing(place: Path) -> None:
    program = "import sys\nsys.modules['xdsl'] = None\nfrom meshgen.cli import main\nsys.exit(main(sys.argv[1:]))"
    own = os.environ | {"PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, "check", "p.mlir", *MESH], capture_output=True, text=True, env=own
    )
    assert done.returncode == 5 and install_line("xdsl") in done.stderr


def test_a_package_that_is_broken_is_told_apart(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ImportError("libfoo.so: cannot open shared object file", name="jaxlib.xla")

    monkeypatch.setattr("meshgen.api.read", broken)
    assert main(["check", "p.mlir", *MESH]) == 5
    assert "the Python package 'jaxlib' cannot be imported: libfoo.so" in capsys.readouterr().err


def test_how_to_install() -> None:
    assert install_line("cupy") == EXTRAS["cupy-cuda12x"][1]
    assert install_line("xdsl") == NEEDS["xdsl"][1]
    assert install_line("other") == "pip install other"
