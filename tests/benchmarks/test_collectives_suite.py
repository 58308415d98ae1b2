"""The collectives suite, which reports the columns of nccl-tests, without a GPU: on the cost model and on emulated
NCCL.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshgen.benchmarks.collectives import simulated
from meshgen.benchmarks.collectives.cases import (
    IN_PLACE,
    KINDS,
    Case,
    Layout,
    bus_factor,
    case_of,
    count_wrong,
    expected_result,
    layout_of,
    random_operand,
)
from meshgen.benchmarks.collectives.suite import size_of, sizes_of
from meshgen.benchmarks.profile import Measurement, fit_link
from meshgen.cli import main
from meshgen.errors import UsageError
from meshgen.machine.profiles import Link, Machine
from meshgen.machine.reading import machine_of, machine_record

QUICK = ["-b", "64", "-e", "1K", "-n", "1", "-w", "1", "-m", "1"]


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["bench", "collectives", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["records"]


@pytest.mark.parametrize("engine", ["simulated", "emulated"])
def test_collectives_have_no_wrong_elements(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ran(capsys, *KINDS, "--engine", engine, "-g", "3", "-d", "float,int8,bfloat16", "-o", "sum,prod", *QUICK)
    assert {row["what"] for row in rows} == set(KINDS) and len(rows) > 60
    for row in rows:
        assert row["wrong"] == 0 and row["ranks"] == 3
        assert ("in_wrong" in row) == (row["what"] in IN_PLACE) and not row.get("in_wrong")
        assert ("us" in row) == (engine == "simulated"), "an emulated GPU has no times"


def test_record_has_the_columns_of_nccl_tests(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = ran(capsys, "all_reduce", "--engine", "simulated", "-b", "1M", "-e", "1M", "-g", "8")
    assert (row["size"], row["count"], row["type"], row["redop"], row["root"]) == (1 << 20, 1 << 18, "float", "sum", -1)
    assert row["algbw"] == pytest.approx(row["size"] / row["us"] / 1e3, rel=1e-3)
    assert row["busbw"] == pytest.approx(row["algbw"] * 2 * 7 / 8, rel=1e-3)
    (gathered,) = ran(capsys, "all_gather", "--engine", "simulated", "-b", "1M", "-e", "1M", "-g", "8")
    assert gathered["count"] == row["count"] / 8, "nccl-tests counts the elements of one rank"
    assert main(["bench", "collectives", "--engine", "simulated", "-e", "4K"]) == 0
    assert "algbw (GB/s)  busbw (GB/s)  #wrong" in capsys.readouterr().out


def test_wrong_elements_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With a transport that does nothing, all elements of a sum are counted as wrong. One changed element is counted as
    one.
    """
    monkeypatch.setattr(simulated, "run_lowered", lambda *_: None)
    (row,) = ran(capsys, "all_reduce", "--engine", "simulated", "-g", "4", "-b", "1K", "-e", "1K")
    assert row["wrong"] == 4 * 256
    case = Case("all_reduce", 100, "bf16", "sum", "all", 4)
    got = expected_result(case, 0)
    assert got is not None and count_wrong(case, got, 0) == 0
    got[7] = 0
    assert count_wrong(case, got, 0) == 1
    assert (
        count_wrong(
            Case("sendrecv", 100, "i8", "", "all", 4), random_operand(Case("sendrecv", 100, "i8", "", "all", 4), 2), 3
        )
        == 0
    )


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_match_nccl_tests(kind: str) -> None:
    case = case_of(kind, 1000, "f32", "sum", "all", 4, 0)
    is_sharded = kind in ("all_gather", "reduce_scatter", "all_to_all")
    assert case.size <= 1000 and case.count == (62 if is_sharded else 250)
    assert max(case.operand_count, case.result_count) * 4 == case.size
    assert bus_factor(kind, 4) == (1.5 if kind == "all_reduce" else 0.75 if is_sharded else 1.0)
    assert case_of(kind, 1, "f64", "sum", "all", 4, 0).count == 1


def test_size_sweep_has_bounds_and_steps() -> None:
    assert [size_of(text) for text in ("8", "1K", "2m", "3G", "16B")] == [8, 1 << 10, 2 << 20, 3 << 30, 16]
    assert sizes_of(8, 100, 2, None) == [8, 16, 32, 64] and sizes_of(8, 24, 2, 8) == [8, 16, 24]
    for invalid in ((8, 4, 2, None), (1, 10_000, 2, 1)):
        with pytest.raises(UsageError, match="MG0001"):
            sizes_of(*invalid)


def test_layout_of_ranks_follows_their_hosts() -> None:
    assert layout_of(["a", "a", "b", "b"]) == Layout(4, 2) and layout_of(["a"] * 3) == Layout(3, 3)
    assert layout_of(["a", "b", "a", "b"]) == Layout(4, 0) and layout_of(["a", "a", "b"]) == Layout(3, 0)
    assert Layout(4, 2).groups == ["all", "host", "across"]
    assert Layout(4, 4).groups == Layout(4, 1).groups == Layout(4, 0).groups == ["all"]


OWN = Machine("own", (Link("inside", 4, 200e9, 7e-6), Link("between", None, 20e9, 30e-6)))


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(machine_record(OWN)))
    return str(path)


def test_profile_recovers_links_of_both_levels(
    profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile_path = str(tmp_path / "found.json")
    ran(capsys, "--engine", "simulated", "--machine", profile, "-g", "8", "-c", "0", "-e", "64M", "--save-profile", profile_path)  # fmt: skip
    machine = machine_of(profile_path)
    assert machine.name == "found" and [link.devices for link in machine.links] == [4, None]
    for link, expected_link in zip(machine.links, OWN.links, strict=True):
        assert link.bytes_per_second == pytest.approx(expected_link.bytes_per_second, rel=0.02)
        assert link.latency_seconds == pytest.approx(expected_link.latency_seconds, rel=0.02)


def test_compile_accepts_measured_profile_as_machine(
    profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A profile that was measured on one host has no link between hosts. This link is taken from the machine in
    `--machine`.
    """
    profile_path, module = str(tmp_path / "found.json"), str(tmp_path / "m.mgx")
    ran(capsys, "--engine", "simulated", "--machine", profile, "-g", "4", "-c", "0", "--save-profile", profile_path)
    assert machine_of(profile_path).links[1] == OWN.links[1]
    program = tmp_path / "p.mlir"
    program.write_text(
        "shard.grid @m(shape = 8)\nfunc.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
        "  %y = stablehlo.tanh %x : tensor<8x8xf32>\n  return %y : tensor<8x8xf32>\n}\n"
    )
    assert (
        main(["compile", str(program), "--machine", profile_path, "--mesh", "dp=8", "--target", "cpu", "-o", module])
        == 0
    )


def test_link_fit_tolerates_noise() -> None:
    rng = np.random.default_rng(0)
    sizes = [1 << n for n in range(10, 28)]
    times = [Measurement(n, (12e-6 + n / 300e9) * (1 + 0.05 * rng.standard_normal())) for n in sizes * 5]
    latency, rate = fit_link(times)
    assert latency == pytest.approx(12e-6, rel=0.05) and rate == pytest.approx(300e9, rel=0.1)
    falling = [Measurement(1e3, 9e-6), Measurement(1e6, 8e-6), Measurement(2e6, 7e-6)]
    assert fit_link(falling) == (pytest.approx(7e-6), pytest.approx(2e6 / 7e-6))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gather_all"], "unknown kind of collective 'gather_all'"),
        (["-d", "complex"], "unknown type 'complex'"),
        (["-o", "avg"], "unknown reduction 'avg'"),
        (["-b", "0"], "expected a size such as"),
        (["-f", "1"], "-f must be at least 2"),
        (["-b", "1M", "-e", "1K"], "are none"),
        (["-r", "9"], "root 9 is not one of the 8 ranks"),
        (["--groups", "across"], "no ranks form groups 'across'"),
        (["-g", "12", "--machine", "dgx-h100"], "12 ranks do not fill hosts of 8"),
        (["--machine", "cray"], "unknown machine 'cray'"),
        (["--save-profile", "own.txt"], "a profile is a .json file"),
        (["all_reduce", "-b", "1M", "-e", "1M", "--save-profile", "own.json"], "needs times of two sizes"),
    ],
)
def test_invalid_sweep_is_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "collectives", "--engine", "simulated", *words]) == 2
    assert message in capsys.readouterr().err
