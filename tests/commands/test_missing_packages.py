"""Commands without optional packages: they work, or name the missing package and the command that installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshgen.cli import main
from meshgen.commands import doctor
from meshgen.packages import CORE, allows, install, install_command, install_line, name_of
from meshgen.runtime.module import DEVICES

PROGRAM = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.tanh %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
MESH = ["--mesh", "a=2", "--target", "cpu"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.mlir").write_text(PROGRAM)
    return tmp_path


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)


def test_doctor_runs_without_any_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("numpy", "ml_dtypes", "xdsl", "triton", "jinja2", "scipy"):
        without(name, monkeypatch)
    monkeypatch.setitem(CORE, "no-such-package", "nothing")
    assert main(["doctor"]) == 5
    out, err = capsys.readouterr()
    assert install_command(["no-such-package"]) in out and "missing: no-such-package" in err


def test_command_names_the_missing_package_and_install_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without("jinja2", monkeypatch)
    assert main(["report", "p.mlir", *MESH, "-o", "r.html"]) == 5
    err = capsys.readouterr().err
    assert "error MG0602: the Python package 'jinja2' is not installed" in err and install_line("jinja2") in err
    assert "meshgen doctor" in err and not (folder / "r.html").exists()


def test_check_without_xdsl_names_the_install_line(folder: Path) -> None:
    program = "import sys\nsys.modules['xdsl'] = None\nfrom meshgen.cli import main\nsys.exit(main(sys.argv[1:]))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
    completed = subprocess.run(
        [sys.executable, "-c", program, "check", "p.mlir", *MESH], capture_output=True, text=True, env=environment
    )
    assert completed.returncode == 5 and install_line("xdsl") in completed.stderr


def test_broken_package_is_distinguished_from_missing_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ImportError("libfoo.so: cannot open shared object file", name="jaxlib.xla")

    monkeypatch.setattr("meshgen.api.read_with", broken)
    assert main(["check", "p.mlir", *MESH]) == 5
    assert "the Python package 'jaxlib' cannot be imported: libfoo.so" in capsys.readouterr().err


def test_install_line_names_packages_that_meshgen_uses() -> None:
    assert install_line("cupy") == install("cuda12") and "'cupy-cuda13x>=14'" in install("cuda12")
    assert install_line("mpi4py.MPI") == "pip install 'mpi4py>=4.1' 'mpich>=5'"
    assert install_line("xdsl") == "pip install 'xdsl>=0.74,<0.75'"
    assert install_line("other") == "install the package that has the Python module 'other'"


def versions_of(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    monkeypatch.setattr(doctor, "version_of", lambda name: versions.get(name, ""))


def test_doctor_says_whether_modules_can_run_without_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions_of(monkeypatch, numpy="2.4.6", ml_dtypes="0.6.0")
    assert main(["doctor"]) == 5
    assert "meshgen doctor --run" in capsys.readouterr().err
    assert main(["doctor", "--run", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["devices"] | {"cuda": False} == {
        "reference": True,
        "interpret": False,
        "emulate": True,
        "cuda": False,
    }
    assert main(["doctor", "--run", "interpret"]) == 5
    assert "triton is missing" in capsys.readouterr().err
    versions_of(monkeypatch, numpy="1.26.4", ml_dtypes="0.6.0")
    assert main(["doctor", "--run"]) == 5
    assert "numpy is 1.26.4: not >=2" in capsys.readouterr().err


def test_doctor_names_packages_that_are_too_old(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    core = {name_of(requirement): bound_of(requirement) for requirement in CORE}
    versions_of(monkeypatch, **core, jax="0.4.38", onnx="1.20.0")
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert "0.4.38: not >=0.10" in out
    assert err == "note: jax 0.4.38 is installed, but meshgen needs jax>=0.10: pip install 'jax>=0.10'\n"
    versions_of(monkeypatch, **core | {"xdsl": "0.75.1"})
    assert main(["doctor"]) == 5
    assert "missing: xdsl" in capsys.readouterr().err


def bound_of(requirement: str) -> str:
    return requirement.partition(">=")[2].partition(",")[0]


def test_doctor_knows_devices_of_run() -> None:
    assert doctor.DEVICES == DEVICES


@pytest.mark.parametrize(
    ("version", "is_allowed"),
    [
        ("2", True),
        ("2.0.0rc1", True),
        ("2.14.1+cpu", True),
        ("1.99", False),
        ("3", False),
        ("3.0.1", False),
        ("", False),
    ],
)
def test_requirement_allows_versions_in_its_bounds(version: str, is_allowed: bool) -> None:
    assert allows("x>=2.0,<3", version) == is_allowed
