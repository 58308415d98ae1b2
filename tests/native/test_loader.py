"""Tests of errors of the C loader: each forgery changes a valid module in one way, with correct digests."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from meshgen.cli import main
from meshgen.runtime.module_file import container
from meshgen.runtime.module_file.members import Held
from meshgen.runtime.native import table_format as words
from meshgen.runtime.native.export import SOURCES, with_members
from meshgen.runtime.plan import STREAMS
from tests.native import loader
from tests.native.mutate import Campaign
from tests.native.programs import PROGRAMS

pytestmark = pytest.mark.skipif(not loader.COMPILER, reason="there is no C compiler")


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Campaign(tmp_path_factory.mktemp("campaign"), ["mlp", "weights", "loop with collectives"])


@pytest.fixture
def good(campaign: Campaign) -> Path:
    return campaign.folder / "mlp.mgx"


def refused(campaign: Campaign, path: Path, *options: str) -> tuple[int, str]:
    completed = subprocess.run(
        [str(campaign.program), str(path), *options], capture_output=True, text=True, errors="replace"
    )
    assert "Sanitizer" not in completed.stderr and "runtime error" not in completed.stderr, completed.stderr
    return completed.returncode, completed.stderr


def forged(path: Path, target: Path, change: Callable[[list[int]], None]) -> None:
    """Write a copy of the module at `path` to `target`, with a launch table that `change` has edited."""
    container_file = container.Container(path)
    table = list(struct.unpack(f"<{len(container_file[words.TABLE]) // 8}Q", container_file[words.TABLE]))
    change(table)
    native_members = {name: bytes(container_file[name]) for name in container_file if name.startswith("native/")}
    members = {name: bytes(container_file[name]) for name in container_file}
    changed = native_members | {words.TABLE: struct.pack(f"<{len(table)}Q", *table)}
    container.write(target, with_members(Held(path, members), changed))


def record_indices(table: list[int], record: list[int]) -> list[int]:
    """Return the indices at which `record` occurs in the table."""
    return [n for n in range(len(table)) if table[n : n + len(record)] == record]


def test_random_forgeries_are_rejected_or_harmless(campaign: Campaign) -> None:
    """This runs a few mutants of the campaign in `mutate.py`."""
    table, faults = campaign.mutate(0, 20)
    assert faults == [] and table[1] and table[0]


def test_table_enum_values_match_c_header() -> None:
    """The Python writer and the C reader use the same enum values."""
    header = (SOURCES / "table.h").read_text()
    for kind, prefix in (
        (words.Op, "OP"),
        (words.Parameter, "PARAMETER"),
        (words.Call, "CALL"),
        (words.Control, "CONTROL"),
        (words.Code, "CODE"),
    ):
        line = next(line for line in header.splitlines() if line.startswith("enum mgx_") and f"{{ {prefix}_" in line)
        first, *others = re.findall(rf"{prefix}_(\w+)(?: = (\d+))?", line)
        names = [first[0], *(name for name, _ in others)]
        assert {name: int(first[1] or 0) + n for n, name in enumerate(names)} == {
            member.name: member.value for member in kind
        }
    assert f"MGX_VERSION = {words.VERSION}," in header


FORGERIES: dict[str, tuple[Callable[[list[int]], None], str]] = {
    "cut off": (lambda t: t.__delitem__(slice(-3, None)), "cut off or malformed"),
    "longer": (lambda t: t.append(0), "cut off or malformed"),
    "no magic": (lambda t: t.__setitem__(0, 5), "its launch table has a wrong magic number"),
    "another version": (lambda t: t.__setitem__(1, 9), "MG0503: the launch table of .* is of another version"),
    "no ranks": (lambda t: t.__setitem__(2, 0), "its launch table is malformed"),
    "more ranks": (lambda t: t.__setitem__(2, 5), "malformed|in no part"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_launch_table_is_rejected(name: str, campaign: Campaign, good: Path, tmp_path: Path) -> None:
    change, expected_message = FORGERIES[name]
    forged(good, tmp_path / "m.mgx", change)
    code, message = refused(campaign, tmp_path / "m.mgx", "--list")
    assert code == 1 and re.search(expected_message, message), message


def operation(table: list[int], op: words.Op, at: int, value: int) -> bool:
    """Set word `at` of the first operation `op` on stream 0 or 1 to `value`. Return whether such an operation exists.

    An operation is a list of words that follows its length.
    """
    sizes = {words.Op.COPY: 5, words.Op.CLEAR: 4, words.Op.RECORD: 3, words.Op.WAIT: 3}
    for index in range(1, len(table) - 8):
        is_launch = (
            op == words.Op.LAUNCH
            and table[index - 1] == 7 + 3 * table[min(index + 6, len(table) - 1)]
            and table[index + 1] < 2
        )
        if table[index] == op and (is_launch or table[index - 1] == sizes.get(op)):
            table[index + at] = value
            return True
    return False


WORK: dict[str, tuple[words.Op, int, int]] = {
    "an unknown stream": (words.Op.LAUNCH, 1, STREAMS),
    "an unknown kernel": (words.Op.LAUNCH, 2, 1000),
    "an empty grid": (words.Op.LAUNCH, 3, 0),
    "a grid beyond CUDA's": (words.Op.LAUNCH, 4, 1 << 16),
    "a pointer behind the memory": (words.Op.LAUNCH, 8, 1 << 40),
    "a pointer in front of it": (words.Op.LAUNCH, 8, (1 << 64) - 256),
    "an extent beyond it": (words.Op.LAUNCH, 9, 1 << 40),
    "a kind of parameter": (words.Op.LAUNCH, 7, 9),
}


@pytest.mark.parametrize("name", WORK)
def test_forged_operation_is_rejected(name: str, campaign: Campaign, good: Path, tmp_path: Path) -> None:
    forged(good, tmp_path / "m.mgx", lambda table: operation(table, *WORK[name]) or pytest.fail("there is none"))
    code, message = refused(campaign, tmp_path / "m.mgx", "--list")
    assert code == 1 and "an operation is malformed or is outside of its memory" in message, message


# MOST_SECONDS: a check in quadratic time took hours; the linear check takes a second.
MAGIC, RANKS, MOST_SECONDS = 0x656C62617478676D, 1 << 16, 120


def listed(lists: list[list[int]]) -> list[int]:
    return [len(lists), *(word for operation_words in lists for word in (len(operation_words), *operation_words))]


MEMBER = [1, len(b"constants.safetensors"), *struct.unpack("<3Q", b"constants.safetensors".ljust(24, b"\0"))]


def table_of(splits: list[list[int]], operations: list[list[int]], constants: list[list[int]]) -> list[int]:
    """Return a table with one part that has 1,024 bytes of memory per rank and issues the same operations on all ranks."""
    ranks = len(splits[0]) // 2
    programs = [[*range(len(operations))]]
    part = [0, ranks, 1024, 0, *listed(operations), *listed(programs), *listed([[0] * ranks]), 1, 0]
    return [MAGIC, words.VERSION, ranks, *MEMBER, 0, *listed(splits), 1, *part, *listed(constants), 0, 0]


ALONE = [word for rank in range(RANKS) for word in (0, rank)]  # all ranks are in one group
CALL = [1, 1, 0, 0, 0, 1, 0, 0, 0]
SLOW: dict[str, tuple[list[int], int, str]] = {
    "ranks x calls x ranks": (table_of([ALONE], [[6, 0, 5000, *(CALL * 5000)]], []), 0, ""),
    "constants x their bytes": (
        table_of([[0, 0, 0, 1]], [[3, 0, 0, 8]], [[0, 0, 8, 0, 0]] * 129), 1, "a constant is outside of its memory"),
    "a group that is larger": (
        table_of([[0, 0, 0, 1, 2, 0]], [[6, 0, 1, *CALL]], []), 1, "a communicator is malformed"),
    "a rank of the part in no group": (
        table_of([[0, 0, (1 << 64) - 1, 0]], [[6, 0, 1, *CALL]], []), 1, "a communicator has some ranks of a part only"),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOW)
def test_launch_table_check_takes_linear_time(name: str, campaign: Campaign, good: Path, tmp_path: Path) -> None:
    table, code, expected_message = SLOW[name]
    forged(good, tmp_path / "m.mgx", lambda words_: words_.__setitem__(slice(None), table))
    command = [str(campaign.program), str(tmp_path / "m.mgx"), "--list"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
    assert (completed.returncode, expected_message in completed.stderr) == (code, True), completed.stderr


def test_overlapping_members_are_rejected(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    """Otherwise a file with n overlapping members could make the loader hash the file n times."""
    content = bytearray(good.read_bytes())
    entries = [n for n in range(len(content)) if content[n : n + 4] == b"PK\x01\x02"]
    for offset in entries:
        content[offset + 24 : offset + 28] = (len(content) // 2).to_bytes(4, "little")
        content[offset + 42 : offset + 46] = bytes(4)
    (tmp_path / "m.mgx").write_bytes(content)
    code, message = refused(campaign, tmp_path / "m.mgx", "--list")
    assert code == 1 and "its members overlap" in message, message


def test_c_api_behaves_as_documented_in_header(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    build = campaign.program.parent
    words_ = [loader.COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", *loader.SANITIZERS.split(), f"-I{SOURCES}"]
    words_ += ["-o", str(tmp_path / "api"), str(loader.HERE / "api.c"), str(build / "libmeshgen.a"), "-ldl"]
    subprocess.run(words_, check=True)
    environment = campaign.environment(120)
    completed = subprocess.run([str(tmp_path / "api"), str(good)], capture_output=True, text=True, env=environment)
    assert completed.returncode == 0, completed.stderr


def test_loader_rejects_files_that_are_no_modules(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    content, path = good.read_bytes(), tmp_path / "m.mgx"
    for wrong, expected_message in (
        (b"", "MG0501"),
        (b"text" * 100, "MG0501"),
        (content[:-1], "MG0502"),
        (content[1:], "MG0501"),
        (content + b"\0", "MG0502"),
    ):
        path.write_bytes(wrong)
        code, message = refused(campaign, path, "--list")
        assert code == 1 and expected_message in message, message
    assert refused(campaign, tmp_path / "missing", "--list")[0] == 2
    assert refused(campaign, tmp_path, "--list")[0] == 1


def test_every_damaged_member_is_detected(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    container_file = container.Container(good)
    members = {name: bytes(container_file[name]) for name in container_file}
    for name, content in members.items():
        container.write(tmp_path / "m.mgx", members | {name: content[:-1] + bytes([content[-1] ^ 1])})
        code, message = refused(campaign, tmp_path / "m.mgx", "--list")
        assert code == 1 and "MG0502" in message, (name, message)
    container.write(tmp_path / "m.mgx", members | {"other": b"x"})
    assert "does not list" in refused(campaign, tmp_path / "m.mgx", "--list")[1]


def test_module_without_launch_table_is_rejected(campaign: Campaign, tmp_path: Path) -> None:
    PROGRAMS["mlp"](tmp_path / "m.mgx")
    code, message = refused(campaign, tmp_path / "m.mgx", "--list")
    assert code == 1 and "MG0505" in message and "meshgen native adds it" in message


def test_native_command_adds_launch_table(
    campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`meshgen native` is deterministic, and Python still runs the module."""
    path, again = tmp_path / "m.mgx", tmp_path / "again.mgx"
    PROGRAMS["mlp"](path)
    assert main(["native", str(path)]) == 0 and main(["native", str(path), "-o", str(again)]) == 0
    assert path.read_bytes() == again.read_bytes()
    assert main(["run", str(path)]) == 0
    assert main(["native", "--sources"]) == 0 and str(SOURCES) in capsys.readouterr().out
    listed = subprocess.run(
        [str(campaign.program), str(path), "--list"], capture_output=True, text=True
    ).stdout.splitlines()
    assert listed[:2] == ["4 ranks", "input x <f4 (8, 12) 384 bytes"]


@pytest.mark.parametrize("words_, code, expected_message", [
    ([], 2, "MG0001: a module is missing"), (["--steps"], 2, "needs a value"), (["m.mgx", "--steps", "no"], 2, "'no' is not a number"),
    (["m.mgx", "n.mgx"], 2, "one module at a time"), (["m.mgx", "--input", "x"], 2, "not NAME=FILE"), (["--wrong", "1"], 2, "unknown option"),
    (["m.mgx", "--rank", "1"], 2, "--rank needs --meet"),
])  # fmt: skip
def test_invalid_loader_options_are_rejected(
    words_: list[str], code: int, expected_message: str, campaign: Campaign
) -> None:
    completed = subprocess.run([str(campaign.program), *words_], capture_output=True, text=True)
    assert completed.returncode == code and expected_message in completed.stderr


def test_missing_driver_is_reported(campaign: Campaign, good: Path) -> None:
    """The loader runs as on a machine without libcuda and libnccl."""
    code, message = refused(campaign, good)
    assert code == 5 and "MG0602" in message


def test_diverging_ranks_are_reported(campaign: Campaign) -> None:
    """Kernels of the null GPU leave random loop conditions on the ranks. Their loop has collectives, so it would hang."""
    source = next(source for source in campaign.sources if source.name == "loop with collectives")
    command = [
        str(campaign.program),
        str(campaign.folder / "loop_with_collectives.mgx"),
        *source.words,
        "--time-limit",
        "1",
    ]
    divergence_errors: list[str] = []
    for seed in range(12):
        environment = campaign.environment(80) | {"MGX_SEED": str(seed)}
        completed = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert completed.returncode in (0, 4), completed.stderr
        divergence_errors += re.findall(
            "MG0604: control flow holds collectives, but ranks 0 and . choose differently", completed.stderr
        )
    assert divergence_errors


def test_mismatched_input_array_is_rejected(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    source = next(source for source in campaign.sources if source.name == "mlp")
    for array, expected_message in ((np.zeros((8, 11), np.float32), "its shape"), (np.zeros((8, 12), np.float64), "its element type"),
                        (np.asfortranarray(np.zeros((8, 12), np.float32)), "row-major")):  # fmt: skip
        np.save(tmp_path / "x.npy", array)
        code, fault = campaign.run(good, ["--input", f"x={tmp_path / 'x.npy'}", *source.words[2:]], 80)
        assert code == 2 and fault == "", expected_message
    assert campaign.run(good, source.words[:2], 80)[0] == 2  # the required input w1 is missing
    assert campaign.run(good, source.words, 80) == (0, "")


def test_native_command_rejects_unsupported_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {\n  %0 = stablehlo.tanh %a : tensor<8x4xf32>\n  return %0 : tensor<8x4xf32>\n}\n"
    (tmp_path / "p.mlir").write_text(text)
    path = str(tmp_path / "p.mgx")
    assert main(["compile", str(tmp_path / "p.mlir"), "--mesh", "a=2", "--target", "cpu", "-o", path]) == 0
    assert main(["native", path]) == 5
    assert "MG0602" in capsys.readouterr().err
    assert main(["native"]) == 2
    assert (
        main(["compile", str(tmp_path / "p.mlir"), "--mesh", "a=?", "--target", "cpu", "--spec", "a=a,_", "-o", path])
        == 0
    )
    capsys.readouterr()
    assert main(["native", path]) == 2
    assert "MG0001" in (expected_message := capsys.readouterr().err) and "open sizes" in expected_message
