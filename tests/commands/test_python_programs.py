"""Errors in a Python program, or in a program on stdin, are reported at their source line. They are not internal errors
of meshgen.
"""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path

import pytest

from meshgen import cli

FILES = {
    "raises.py": "x = 1\nraise RuntimeError('at import')\n",
    "spelled.py": "x = 1\ndef f(:\n",
    "leaves.py": "import sys\nsys.exit(3)\n",
    "lacks.py": "import no_such_package\n",
    "model.py": (
        "import json\n"
        "def unknown(x):\n    return x + nothing\n"
        "def library(x):\n    return json.loads('{') + x\n"
        "def endless(x):\n    return endless(x)\n"
    ),
    "ends.py": (
        "import os, signal, sys\n"
        "class Own(BaseException): pass\n"
        "def well(x):\n    sys.exit(0)\n"
        "def badly(x):\n    raise SystemExit(3)\n"
        "def interrupt(x):\n    raise KeyboardInterrupt\n"
        "def generator(x):\n    raise GeneratorExit\n"
        "def own(x):\n    raise Own('so')\n"
        "def pressed(x):\n    signal.raise_signal(signal.SIGINT)\n    return x\n"
        "class Odd(list):\n    def __iter__(self):\n        raise RuntimeError('odd')\n"
        "def odd(x):\n    return Odd([x])\n"
    ),
    "interrupts.py": "raise KeyboardInterrupt\n",
}
FAULTS = {
    "raises:f": (2, "MG0002", "RuntimeError: at import"),
    "spelled:f": (2, "MG0002", "SyntaxError"),
    "leaves:f": (2, "MG0002", "SystemExit: 3"),
    "lacks:f": (1, "MG0002", "no_such_package"),
    "interrupts:f": (1, "MG0002", "KeyboardInterrupt"),
    "ends:well": (4, "MG0105", "SystemExit: 0"),
    "ends:badly": (6, "MG0105", "SystemExit: 3"),
    "ends:interrupt": (8, "MG0105", "KeyboardInterrupt"),
    "ends:generator": (10, "MG0105", "GeneratorExit"),
    "ends:own": (12, "MG0105", "Own: so"),
    # this exception is raised when the result is read, not while the function runs
    "ends:odd": (18, "MG0105", "RuntimeError: odd"),
    "model:unknown": (3, "MG0105", "NameError: name 'nothing'"),
    "model:library": (5, "MG0105", "JSONDecodeError"),
    "model:endless": (7, "MG0105", "RecursionError"),
}


@pytest.mark.parametrize("program", FAULTS)
def test_exception_of_program_is_reported_with_its_line(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.chdir(tmp_path)
    line, number, words = FAULTS[program]
    assert cli.main(["check", program, "--mesh", "x=2", "--arg", "f32[4]"]) == (1 if number == "MG0105" else 2)
    err = capsys.readouterr().err
    assert err.startswith(f"{tmp_path / program.partition(':')[0]}.py:{line}: error {number}: ")
    assert words in err


def test_keyboard_interrupt_exits_with_code_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends.py").write_text(FILES["ends.py"])
    monkeypatch.delitem(sys.modules, "ends", raising=False)
    monkeypatch.chdir(tmp_path)
    # a background job of a shell ignores SIGINT, so set the default handler
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = cli.main(["check", "ends:pressed", "--mesh", "x=2", "--arg", "f32[4]"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 130


OP = """from meshgen import op_rule
@op_rule("a -> a", name="ends_here")
def ends_here(x):
    raise SystemExit(0)
def f(x):
    return ends_here(x)
"""


def test_system_exit_in_custom_op_is_a_located_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "operation.py").write_text(OP)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "operation:f", "--mesh", "x=2", "--arg", "f32[4]"]) == 1
    assert "operation.py:4: error MG0105: SystemExit: 0" in capsys.readouterr().err
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = stablehlo.custom_call @ends_here(%x) : (tensor<4xf32>) -> tensor<4xf32>\n  return %y : tensor<4xf32>\n}\n"
    (tmp_path / "p.mlir").write_text(text)
    assert cli.main(["check", "p.mlir", "--mesh", "x=2"]) == 1
    assert "SystemExit: 0" in capsys.readouterr().err


@pytest.mark.parametrize("program", ["..:f", ".model:f", "x" * 300 + ":f", "a\0b:f"])
def test_invalid_module_name_is_refused(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", program]) == 2
    assert "MG0002" in capsys.readouterr().err


@pytest.mark.parametrize("start, code", [(b"\xef\xbb\xbf", 0), (b"\xff\xfe", 1)], ids=["mark", "not UTF-8"])
def test_byte_order_mark_is_ignored_and_other_encoding_refused(
    start: bytes, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = start + b"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"
    (tmp_path / "p.mlir").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
    for program in (str(tmp_path / "p.mlir"), "-"):
        assert cli.main(["opt", program, "--passes", ""]) == code
        assert not code or "MG0101" in capsys.readouterr().err
