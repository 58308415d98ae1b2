"""Refusal of invalid input. Each kind of fault has its own message and exit code, all faults of a program are reported
at once, and no command prints a traceback.
"""

from __future__ import annotations

import json
import re
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from meshgen import cli
from meshgen.reproducers import KEPT, save_reproducer
from tests.programs import CONFLICT, mlp

UNKNOWN = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.frobnicate"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.transmogrify"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
"""

PROGRAMS: list[tuple[str, str, int, str, str]] = [
    ("unknown operations, all of them", UNKNOWN, 1, "MG0103", r"(?s)frobnicate.*transmogrify"),
    ("unknown axis", mlp(x=("q", "")), 1, "MG0202", r"'q'"),
    ("axis used twice", mlp(x=("x", "x")), 1, "MG0203", r"'x'"),
    ("annotation of the wrong rank", mlp(x=("x",)), 1, "MG0204", r"1 dims.*rank 2"),
    ("two faults", mlp(x=("q", ""), w1=("", "y", "")), 1, "MG0204", r"(?s)MG0202|MG0204"),
    ("conflicting required annotations", CONFLICT, 1, "MG0205", r"\[\{1\}, \{\}\], but also with \[\{0\}, \{\}\]"),
    ("empty", "", 1, "MG0102", "empty"),
    ("only a comment", "// nothing\n", 1, "MG0102", "empty"),
    ("no MLIR", "this is { not MLIR", 1, "MG0101", ""),
    ("wrong types", mlp().replace("-> tensor<8x16xf32>", "-> tensor<8x17xf32>", 1), 1, "MG010[14]", "1[67]"),
    ("a mesh with a zero", mlp().replace('"x"=2', '"x"=0'), 1, "MG0201", "size 0"),
]


@pytest.mark.parametrize(
    ("text", "code", "number", "message"), [row[1:] for row in PROGRAMS], ids=[row[0] for row in PROGRAMS]
)
@pytest.mark.parametrize("command", ["check", "explain", "opt"])
def test_invalid_program_is_refused_by_each_command(
    command: str, text: str, code: int, number: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(text)
    words = [command, str(path), *(["--passes", "propagate"] if command == "opt" else [])]
    assert cli.main([*words, "--json"]) == code
    out, err = capsys.readouterr()
    assert re.search(f"error {number}: ", err) and re.search(message, err), err
    assert "Traceback" not in err
    report = json.loads(out)
    assert report["exit_code"] == code and any(re.fullmatch(number, d["code"]) for d in report["diagnostics"])


def test_refusal_quotes_the_source_line_with_caret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(UNKNOWN)
    assert cli.main(["check", str(path)]) == 1
    err = capsys.readouterr().err
    assert f"{path}:2: error" in err and f"{path}:3: error" in err
    assert re.search(r'\| +%a = "stablehlo.frobnicate".*\n +\| +\^', err)


USAGE: list[tuple[str, list[str], int, str, str]] = [
    ("no command", [], 2, "MG0001", "a command is missing"),
    ("unknown command", ["frobnicate"], 2, "MG0001", "frobnicate"),
    ("unknown option", ["check", "GOOD", "--frobnicate"], 2, "MG0001", "frobnicate"),
    (
        "misspelled option",
        ["compile", "GOOD", "--sepc", "x=x"],
        2,
        "MG0001",
        "unknown option --sepc(?s:.)*did you mean --spec?",
    ),
    (
        "no such kind",
        ["explain", "GOOD", "--kind", "all_gathr"],
        2,
        "MG0001",
        "'all_gathr'(?s:.)*did you mean 'all_gather'?",
    ),
    ("no such axis", ["explain", "GOOD", "--axis", "q"], 2, "MG0001", "'q'(?s:.)*the axes are x"),
    (
        "no such part",
        ["explain", "GOOD", "--layer", "layer_7"],
        2,
        "MG0001",
        "'layer_7'(?s:.)*none of its parts has a name",
    ),
    ("no output", ["compile", "GOOD"], 2, "MG0001", "-o"),
    ("missing file", ["check", "nowhere.mlir"], 2, "MG0002", "nowhere.mlir"),
    ("a directory", ["check", "."], 2, "MG0002", r"\."),
    ("missing module", ["run", "nowhere.mgx"], 2, "MG0002", "nowhere.mgx"),
    ("a module as a program", ["check", "MODULE"], 2, "MG0002", "compiled module"),
    ("no such function", ["check", "json:frobnicate"], 2, "MG0002", "frobnicate"),
    ("function without types", ["check", "meshgen.frontend.tracer.nn:softmax"], 2, "MG0001", "args"),
    ("mesh that is none", ["check", "GOOD", "--mesh", "dp"], 2, "MG0201", "NAME=SIZE"),
    ("mesh with a zero", ["check", "GOOD", "--mesh", "x=0,y=2"], 2, "MG0201", "size 0"),
    ("--random and a program", ["check", "GOOD", "--random", "2"], 2, "MG0001", "takes no IN"),
    ("no random programs", ["check", "--random", "0"], 2, "MG0001", "positive integer"),
    ("--keep without --random", ["check", "GOOD", "--keep", "d"], 2, "MG0001", "--random"),
    ("a seed below zero", ["check", "GOOD", "--seed", "-1"], 2, "MG0001", "non-negative integer"),
    ("a seed below zero for a module", ["run", "MODULE", "--seed", "-1"], 2, "MG0001", "non-negative integer"),
    ("no devices", ["run", "MODULE", "--devices", "0"], 2, "MG0001", "positive integer"),
    ("a tolerance that is no number", ["run", "MODULE", "--tolerance", "nan"], 2, "MG0001", "non-negative number"),
    ("results into a directory", ["run", "MODULE", "--output", "."], 2, "MG0003", "directory"),
    ("several shapes to run with", ["run", "MODULE", "--shape", "q=2|3"], 2, "MG0001", "several shapes"),
    ("a shape of an input that there is not", ["run", "MODULE", "--shape", "q=2x3"], 1, "MG0601", "'q'"),
    ("module into a directory", ["compile", "GOOD", "-o", "."], 2, "MG0003", "directory"),
    ("a Python file", ["check", "f.py"], 2, "MG0002", "f:FUNCTION"),
    ("two questions", ["explain", "GOOD", "a", "--tree"], 2, "MG0001", "exclude each other"),
    ("strict at a typo", ["explain", "GOOD", "--strict-at", "typo"], 2, "MG0001", "'typo'"),
    ("mesh without the program's axes", ["check", "GOOD", "--mesh", "z=2"], 1, "MG0202", "'x'"),
    ("spec that is none", ["check", "GOOD", "--spec", "x"], 2, "MG0001", "NAME=SPEC"),
    (
        "spec of nothing",
        ["check", "GOOD", "--spec", "nope=x", "--spec", "neither=y"],
        2,
        "MG0001",
        "(?s)'nope'.*'neither'",
    ),
    ("target that is none", ["check", "GOOD", "--target", "tpu"], 2, "MG0001", "'tpu'"),
    ("pass that is none", ["opt", "GOOD", "--passes", "frobnicate"], 2, "MG0001", "frobnicate"),
    ("pass out of order", ["opt", "GOOD", "--passes", "materialize"], 1, "MG0104", "propagat"),
    ("passes left out", ["opt", "GOOD", "--passes", "partition"], 2, "MG0001", "propagate, materialize, optimize"),
    ("pass left out", ["opt", "GOOD", "--passes", "propagate,optimize"], 2, "MG0001", "materialize"),
    ("fused too early", ["opt", "GOOD", "--passes", "propagate,materialize,fuse"], 2, "MG0001", "optimize, partition"),
    ("value that is none", ["explain", "GOOD", "nope"], 2, "MG0001", "'nope'"),
    ("more devices than the module has", ["run", "MODULE", "--devices", "64"], 5, "MG0603", "4 devices.*64"),
    ("input that is none", ["run", "MODULE", "--input", "x"], 2, "MG0001", "NAME=@FILE"),
    ("input file that is missing", ["run", "MODULE", "--input", "x=@nowhere.npy"], 2, "MG0002", "nowhere.npy"),
    ("input that is no array", ["run", "MODULE", "--input", "x=@GOOD"], 2, "MG0002", "arrays"),
    ("GPU that is absent", ["run", "MODULE", "--device", "cuda"], 5, "MG0602", ""),
    (
        "output in a missing directory",
        ["compile", "GOOD", "--target", "cpu", "-o", "nowhere/out.mgx"],
        2,
        "MG0003",
        "nowhere",
    ),
    ("stage that is none", ["inspect", "MODULE", "--stage", "nope"], 2, "MG0001", "'nope'"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("refusals")
    good, module = directory / "good.mlir", directory / "module.mgx"
    good.write_text(mlp())
    assert cli.main(["compile", str(good), "--target", "cpu", "-o", str(module), "--json"]) == 0
    return {"GOOD": str(good), "MODULE": str(module), "DIRECTORY": str(directory)}


@pytest.mark.parametrize(
    ("words", "code", "number", "message"), [row[1:] for row in USAGE], ids=[row[0] for row in USAGE]
)
def test_usage_error_has_its_message_and_exit_code(
    words: list[str],
    code: int,
    number: str,
    message: str,
    files: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files["DIRECTORY"])
    for name in ("GOOD", "MODULE"):
        words = [word.replace(name, files[name]) for word in words]
    assert cli.main(words) == code
    err = capsys.readouterr().err
    assert f"error {number}: " in err and re.search(message, err), err
    assert "Traceback" not in err


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def modified(content: bytes) -> bytes:
    middle = content.index(b"kernels/")
    return content[: middle + 200] + bytes([content[middle + 200] ^ 1]) + content[middle + 201 :]


def emptied(content: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [truncated, modified, emptied])
@pytest.mark.parametrize("command", ["run", "inspect"])
def test_damaged_module_is_refused(
    command: str,
    damage: Callable[[bytes], bytes],
    files: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = tmp_path / "bad.mgx"
    bad.write_bytes(damage(Path(files["MODULE"]).read_bytes()))
    assert cli.main([command, str(bad)]) == 1
    assert re.search("error MG050[12]: ", capsys.readouterr().err)


def test_internal_error_leaves_a_reproducer(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("our own fault")

    monkeypatch.setattr("meshgen.sharding.propagate.propagate", broken)
    assert cli.main(["check", files["GOOD"], "--json"]) == 70
    out, err = capsys.readouterr()
    assert "Traceback" not in err and "our own fault" in err
    folder = Path(json.loads(out)["reproducer"])
    assert "ZeroDivisionError" in (folder / "traceback.txt").read_text()
    assert (folder / "command.txt").read_text() == f"meshgen check {files['GOOD']} --json\n"
    assert (folder / "input1.mlir").read_text() == mlp()


MISTAKES: dict[str, tuple[list[str], str]] = {
    "no such file": (["check", "none.mlir"], r"MG0002: none.mlir(?s:.*)a program is a .mlir file, or pkg.mod:function"),
    "a function by its file": (["check", "mistaken.py:f", "--mesh", "x=2"], r"write 'mistaken:f'"),
    "a function without types": (["check", "mistaken:f", "--mesh", "x=2"], r"--arg 'f32\[8,16\]' for each"),
    "a shape of another rank": (["check", "p.mlir", "--shape", "x=8"], r"p.mlir:\d+: error MG0001: input 'x' is(?s:.*)only set sizes that are open"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_beginners_mistake_has_a_help_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(mlp())
    Path("mistaken.py").write_text("def f(x):\n    return x\n")  # other tests must not import a module with this name
    words, message = MISTAKES[name]
    assert cli.main(words) in (1, 2)
    errors = capsys.readouterr().err
    assert re.search(message, errors) and "help: " in errors, errors


LONG = "9" * 5000  # Python refuses to convert so many digits to an int
ODD: list[list[str]] = [
    ["explain", "GOOD", "²"], ["explain", "GOOD", LONG], ["explain", "GOOD", "--strict-at", "²"], ["explain", "GOOD", "--strict-at", LONG],
    ["explain", "GOOD", "--what-if", f"{LONG}=x"], ["explain", "GOOD", "--collective", LONG], ["check", "GOOD", "--mesh", f"x={LONG}"],
    ["check", "GOOD", "--shape", f"x={LONG}"], ["check", "GOOD", "--arg", f"f32[{LONG}]"], ["check", "GOOD", "--spec", f"x=x:(1){LONG}"],
    ["check", "GOOD", "--memory", f"{LONG}GB"], ["check", "GOOD", "--seed", LONG], ["run", "MODULE", "--mesh", f"x={LONG}"],
    ["check", "\udcff.mlir"], ["check", "GOOD", "--mesh", "\udcff=2"], ["check", "x" * 5000], ["check", "a\0b.mlir"],
    ["compile", "GOOD", "--target", "cpu", "-o", "x" * 5000], ["compile", "GOOD", "--target", "cpu", "-o", "a\0b"],
    ["compile", "GOOD", "--target", "cpu", "-o", "o.mgx", "--dump", "a\0b"], ["report", "GOOD", "-o", "/dev/full"],
    ["opt", "GOOD", "-o", "/dev/full"], ["run", "MODULE", "--output", "/dev/full"], ["inspect", "/dev/null"], ["diff", "GOOD", "/"],
    ["run", "MODULE", "--input", "x=@/dev/null"], ["run", "MODULE", "--input", "x=@."], ["complie", "GOOD"], [""], ["\udcff"],
]  # fmt: skip


@pytest.mark.parametrize("words", ODD, ids=lambda words: ascii(" ".join(words))[:40])
def test_odd_argument_is_refused_without_internal_error(
    words: list[str], files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files["DIRECTORY"])
    words = [word.replace("GOOD", files["GOOD"]).replace("MODULE", files["MODULE"]) for word in words]
    assert cli.main([*words, "--json"]) in (1, 2, 4)
    out, err = capsys.readouterr()
    assert re.search(r"error MG\d{4}: ", err) and "Traceback" not in err
    assert json.loads(out)["diagnostics"]


@pytest.mark.parametrize(
    "variable", ["WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "COLUMNS"]
)
@pytest.mark.parametrize("value", ["", "abc", "²", "-1", LONG, "1e3"])
def test_malformed_launcher_variable_is_ignored(
    variable: str,
    value: str,
    files: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, value)
    assert cli.main(["run", files["MODULE"]]) == 0
    assert capsys.readouterr().err == ""


def test_output_to_dev_null_succeeds(files: dict[str, str]) -> None:
    assert cli.main(["run", files["MODULE"], "--output", "/dev/null"]) == 0
    assert cli.main(["compile", files["GOOD"], "--target", "cpu", "-o", "/dev/null"]) == 0


def test_misspelled_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["complie", "x"]) == 2
    assert "did you mean 'compile'?" in capsys.readouterr().err


FAILURES = {
    "memory": (MemoryError("Unable to allocate 3.6 TiB"), 4, "MG0005: not enough memory: Unable to allocate 3.6 TiB"),
    "memory of Python": (MemoryError(), 4, "MG0005: not enough memory"),
    "nesting": (RecursionError("maximum recursion depth exceeded"), 1, "MG0006: the program is nested too deeply"),
    "system": (
        OSError(28, "No space left on device", "/tmp/x"),
        4,
        "MG0604: the operating system refuses: '/tmp/x': No space left on device",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failure_of_the_machine_is_not_an_internal_error(
    name: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error, code, message = FAILURES[name]

    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr("meshgen.sharding.propagate.propagate", failing)
    assert cli.main(["check", files["GOOD"], "--json"]) == code
    out, err = capsys.readouterr()
    assert f"error {message}" in err and json.loads(out)["exit_code"] == code


def test_only_the_newest_reproducers_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "meshgen-reproducer-link").symlink_to(tmp_path)
    monkeypatch.setattr("meshgen.reproducers.MOST_BYTES", 10)
    folders = [save_reproducer({"input": b"x" * 20, "n": str(n).encode()}) for n in range(KEPT + 3)]
    assert all(folders)
    existing = [folder for folder in folders if folder and folder.exists()]
    assert len(existing) == KEPT and folders[-1] in existing
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in existing} == {0o700}
    assert (existing[-1] / "input").read_bytes() == b"x" * 10


def test_internal_error_without_temporary_folder_has_no_reproducer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("our own \x1b fault")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    monkeypatch.setattr("meshgen.commands.doctor.run", broken)
    assert cli.main(["doctor", "--json"]) == 70
    out, err = capsys.readouterr()
    assert json.loads(out)["reproducer"] is None and "our own \\x1b fault" in err and err.count("\n") == 2
