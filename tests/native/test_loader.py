"""What the C loader refuses, and what it says: each fault is one change of a good module, with right digests."""

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
from meshgen.runtime.native import words
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
    made = subprocess.run(
        [str(campaign.program), str(path), *options], capture_output=True, text=True, errors="replace"
    )
    assert "Sanitizer" not in made.stderr and "runtime error" not in made.stderr, made.stderr
    return made.returncode, made.stderr


def forged(path: Path, target: Path, change: Callable[[list[int]], None]) -> None:
    """The module with another launch table."""
    found = container.Container(path)
    table = list(struct.unpack(f"<{len(found[words.TABLE]) // 8}Q", found[words.TABLE]))
    change(table)
    own = {name: bytes(found[name]) for name in found if name.startswith("native/")}
    members = {name: bytes(found[name]) for name in found}
    changed = own | {words.TABLE: struct.pack(f"<{len(table)}Q", *table)}
    container.write(target, with_members(Held(path, members), changed))


def places(table: list[int], record: list[int]) -> list[int]:
    """Where words follow each other in a table."""
    return [n for n in range(len(table)) if table[n : n + len(record)] == record]


def test_random_forgeries_are_refused_or_harmless(campaign: Campaign) -> None:
    """A few of the campaign."""
    table, faults = campaign.mutate(0, 20)
    assert faults == [] and table[1] and table[0]


def test_numbers_are_those_of_the_header() -> None:
    """What Python writes and C reads has one numbering."""
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
            each.name: each.value for each in kind
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
def test_forged_tables(name: str, campaign: Campaign, good: Path, tmp_path: Path) -> None:
    change, said = FORGERIES[name]
    forged(good, tmp_path / "m.mgx", change)
    code, message = refused(campaign, tmp_path / "m.mgx", "--list")
    assert code == 1 and re.search(said, message), message


def operation(table: list[int], op: words.Op, at: int, value: int) -> bool:
    """Change a word of the first such operation on stream 0 or 1: operations are lists, their numbers of words come first."""
    sizes = {words.Op.COPY: 5, words.Op.CLEAR: 4, words.Op.RECORD: 3, words.Op.WAIT: 3}
    for place in range(1, len(table) - 8):
        is_launch = (
            op == words.Op.LAUNCH
            and table[place - 1] == 7 + 3 * table[min(place + 6, len(table) - 1)]
            and table[place + 1] < 2
        )
        if table[place] == op and (is_launch or table[place - 1] == sizes.get(op)):
            table[place + at] = value
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
def test_forged_work(name: str, campaign: Campaign, good: Path, tmp_path: Path) -> None:
    forged(good, tmp_path / "m.mgx", lambda table: operation(table, *WORK[name]) or pytest.fail("there is none"))
    code, message = refused(campaign, tmp_path / "m.mgx", "--list")
    assert code == 1 and "an operation is malformed or is outside of its memory" in message, message


MAGIC, RANKS, MOST_SECONDS = 0x656C62617478676D, 1 << 16, 120  # such a check took hours, and takes a second


def listed(lists: list[list[int]]) -> list[int]:
    return [len(lists), *(word for each in lists for word in (len(each), *each))]


MEMBER = [1, len(b"constants.safetensors"), *struct.unpack("<3Q", b"constants.safetensors".ljust(24, b"\0"))]


def table_of(splits: list[list[int]], operations: list[list[int]], constants: list[list[int]]) -> list[int]:
    """The table of a part with 1,024 bytes of memory on each rank, of which all issue these operations."""
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
def test_the_check_of_a_table_takes_time_linear_in_its_words(
    name: str, campaign: Campaign, good: Path, tmp_path: Path
) -> None:
    table, code, said = SLOW[name]
    forged(good, tmp_path / "m.mgx", lambda words_: words_.__setitem__(slice(None), table))
    command = [str(campaign.program), str(tmp_path / "m.mgx"), "--list"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
    assert (made.returncode, said in made.stderr) == (code, True), made.stderr


def test_members_that_overlap_are_refused(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    """The digests of a file with n members of all its bytes would take n times the time."""
    content = bytearray(good.read_bytes())
    entries = [n for n in range(len(content)) if content[n : n + 4] == b"PK\x01\x02"]
    for place in entries:
        content[place + 24 : place + 28] = (len(content) // 2).to_bytes(4, "little")
        content[place + 42 : place + 46] = bytes(4)
    (tmp_path / "m.mgx").write_bytes(content)
    code, message = refused(campaign, tmp_path / "m.mgx", "--list")
    assert code == 1 and "its members overlap" in message, message


def test_the_header_keeps_its_promises(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    build = campaign.program.parent
    words_ = [loader.COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", *loader.SANITIZERS.split(), f"-I{SOURCES}"]
    words_ += ["-o", str(tmp_path / "api"), str(loader.HERE / "api.c"), str(build / "libmeshgen.a"), "-ldl"]
    subprocess.run(words_, check=True)
    environment = campaign.environment(120)
    made = subprocess.run([str(tmp_path / "api"), str(good)], capture_output=True, text=True, env=environment)
    assert made.returncode == 0, made.stderr


def test_files_that_are_no_modules(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    content, path = good.read_bytes(), tmp_path / "m.mgx"
    for wrong, said in (
        (b"", "MG0501"),
        (b"text" * 100, "MG0501"),
        (content[:-1], "MG0502"),
        (content[1:], "MG0501"),
        (content + b"\0", "MG0502"),
    ):
        path.write_bytes(wrong)
        code, message = refused(campaign, path, "--list")
        assert code == 1 and said in message, message
    assert refused(campaign, tmp_path / "missing", "--list")[0] == 2
    assert refused(campaign, tmp_path, "--list")[0] == 1


def test_every_damaged_member_is_noticed(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    found = container.Container(good)
    members = {name: bytes(found[name]) for name in found}
    for name, content in members.items():
        container.write(tmp_path / "m.mgx", members | {name: content[:-1] + bytes([content[-1] ^ 1])})
        code, message = refused(campaign, tmp_path / "m.mgx", "--list")
        assert code == 1 and "MG0502" in message, (name, message)
    container.write(tmp_path / "m.mgx", members | {"other": b"x"})
    assert "does not list" in refused(campaign, tmp_path / "m.mgx", "--list")[1]


def test_a_module_without_a_table(campaign: Campaign, tmp_path: Path) -> None:
    PROGRAMS["mlp"](tmp_path / "m.mgx")
    code, message = refused(campaign, tmp_path / "m.mgx", "--list")
    assert code == 1 and "MG0505" in message and "meshgen native adds it" in message


def test_the_command_gives_a_table(campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the same each time, and the module still runs in Python."""
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


@pytest.mark.parametrize("words_, code, said", [
    ([], 2, "MG0001: a module is missing"), (["--steps"], 2, "needs a value"), (["m.mgx", "--steps", "no"], 2, "'no' is not a number"),
    (["m.mgx", "n.mgx"], 2, "one module at a time"), (["m.mgx", "--input", "x"], 2, "not NAME=FILE"), (["--wrong", "1"], 2, "unknown option"),
    (["m.mgx", "--rank", "1"], 2, "--rank needs --meet"),
])  # fmt: skip
def test_calls_that_are_wrong(words_: list[str], code: int, said: str, campaign: Campaign) -> None:
    made = subprocess.run([str(campaign.program), *words_], capture_output=True, text=True)
    assert made.returncode == code and said in made.stderr


def test_without_a_driver_it_is_missing(campaign: Campaign, good: Path) -> None:
    """As on a machine without NVIDIA's libraries."""
    code, message = refused(campaign, good)
    assert code == 5 and "MG0602" in message


def test_ranks_that_choose_differently_are_told(campaign: Campaign) -> None:
    """Kernels that compute nothing leave numbers by chance in what the loop asks: its ranks communicate, so they would deadlock."""
    source = next(source for source in campaign.sources if source.name == "loop with collectives")
    command = [
        str(campaign.program),
        str(campaign.folder / "loop_with_collectives.mgx"),
        *source.words,
        "--time-limit",
        "1",
    ]
    told: list[str] = []
    for seed in range(12):
        environment = campaign.environment(80) | {"MGX_SEED": str(seed)}
        made = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert made.returncode in (0, 4), made.stderr
        told += re.findall("MG0604: control flow holds collectives, but ranks 0 and . choose differently", made.stderr)
    assert told


def test_arrays_that_do_not_fit(campaign: Campaign, good: Path, tmp_path: Path) -> None:
    source = next(source for source in campaign.sources if source.name == "mlp")
    for array, said in ((np.zeros((8, 11), np.float32), "its shape"), (np.zeros((8, 12), np.float64), "its element type"),
                        (np.asfortranarray(np.zeros((8, 12), np.float32)), "row-major")):  # fmt: skip
        np.save(tmp_path / "x.npy", array)
        code, fault = campaign.run(good, ["--input", f"x={tmp_path / 'x.npy'}", *source.words[2:]], 80)
        assert code == 2 and fault == "", said
    assert campaign.run(good, source.words[:2], 80)[0] == 2  # w1 is not given
    assert campaign.run(good, source.words, 80) == (0, "")


def test_what_cannot_run_natively_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "MG0001" in (said := capsys.readouterr().err) and "open sizes" in said
