"""`meshgen simulate`: its tables, its JSON document, and its trace for Perfetto."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from meshgen.cli import main
from tests.programs import mlp
from tests.simulator.test_simulation import LOOP


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("module")
    (folder / "mlp.mlir").write_text(mlp())
    assert main(["compile", str(folder / "mlp.mlir"), "--target", "cpu", "-o", str(folder / "mlp.mgx")]) == 0
    return str(folder / "mlp.mgx")


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main(["simulate", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_simulate_tables_name_the_slowest_rank(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", module, "--slow-device", "2=10"]) == 0
    shown = capsys.readouterr().out
    assert "mlp: 4 ranks of Mesh(x=2, y=2) on one-host (H200)" in shown
    assert "all_reduce over y" in shown and "rank 2" in shown


def test_simulate_json_has_machine_ranks_and_collectives(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    ideal, slow = (
        document(capsys, module),
        document(capsys, module, "--slow-device", "2=10", "--rank", "0", "--rank", "3"),
    )
    assert (ideal["machine"]["name"], ideal["machine"]["device"]) == ("one-host", "sm_90")
    (part,) = ideal["parts"]
    assert part["ranks"] == 4 and part["watched"] == [0] and part["seconds"]["first"] == part["seconds"]["last"]
    (row,) = part["collectives"]
    assert (row["name"], row["times"], row["bytes"]) == ("all_reduce over y", 1, 4 * 12 * 4)
    assert slow["step_seconds"] > ideal["step_seconds"]
    assert slow["parts"][0]["slowest_rank"] in (2, 3) and slow["parts"][0]["watched"] == [0, 3]
    assert part["peak_bytes_in_use"] == max(count for _, count in part["memory"])
    assert part["memory"][-1] == [ideal["step_seconds"], 0]


@pytest.mark.parametrize("text", [mlp(), LOOP], ids=["mlp", "loop"])
def test_simulate_trace_has_a_track_per_stream(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.mlir").write_text(text)
    assert main(["compile", str(tmp_path / "p.mlir"), "--target", "cpu", "-o", str(tmp_path / "p.mgx")]) == 0
    words = ["simulate", str(tmp_path / "p.mgx"), "--trace", str(tmp_path / "t.json"), "--rank", "0", "--rank", "1"]
    assert main([*words, "--slow-device", "1=3"]) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"rank 0", "rank 1"}
    tracks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    assert {pid for pid, _ in tracks} == {0, 1} and {tid for _, tid in tracks} >= {0, 1}
    for track in tracks.values():
        ordered = sorted(track, key=lambda event: event["ts"])
        assert all(one["ts"] + one["dur"] <= next_["ts"] + 1e-9 for one, next_ in pairwise(ordered))
    waits = {pid: sum(e["args"].get("waited_us", 0) for e in track) for (pid, tid), track in tracks.items() if tid == 1}
    assert waits[0] > 0 == waits[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--machine", "cray"], "unknown machine 'cray'"),
        (["--slow-device", "9=2"], "unknown rank 9"),
        (["--slow-device", "1"], "'1' is not RANK=FACTOR"),
        (["--slow-link", "1=0"], "'1=0' is not RANK=FACTOR"),
        (["--slow-link", "1=nan"], "'1=nan' is not RANK=FACTOR"),
        (["--slow-link", "-1=2"], "expected one argument"),
        (["--jitter", "-1"], "expected a non-negative number"),
        (["--rank", "4"], "the ranks are 0 to 3"),
    ],
)
def test_bad_options_are_refused(
    module: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", module, *words]) == 2
    assert message in capsys.readouterr().err
