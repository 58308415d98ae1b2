"""The collectives suite on an MPI library, in processes of mpiexec."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from meshgen.benchmarks.collectives.cases import IN_PLACE, KINDS
from meshgen.machine.reading import machine_of
from tests.sources import ROOT

MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
pytestmark = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec"
)
QUICK = ["-b", "64", "-e", "4K", "-f", "8", "-n", "2", "-w", "1", "-m", "2"]


def ran(*words: str, engine: str = "mpi") -> subprocess.CompletedProcess[str]:
    command = [MPIEXEC or "", "-n", "2", sys.executable, "-m", "meshgen", "bench", "collectives", "--engine", engine]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([*command, *words], capture_output=True, text=True, env=environment, timeout=300)


def test_mpi_collectives_are_correct_and_timed(tmp_path: Path) -> None:
    profile = tmp_path / "here.json"
    outcome = ran(*KINDS, "-d", "float,int64", *QUICK, "--json", "--save-profile", str(profile))
    assert outcome.returncode == 0, outcome.stderr
    document = json.loads(outcome.stdout)  # only one of the processes prints
    assert "mpi" in document["environment"] and {row["what"] for row in document["records"]} == set(KINDS)
    for row in document["records"]:
        times = [row[key] for key in ("us", "in_us") if key in row]
        assert min(times) > 0 and len(times) == (row["what"] in IN_PLACE) + (row["what"] != "broadcast"), row
        assert not row.get("wrong") and not row.get("in_wrong") and row["ranks"] == 2
    (link,) = machine_of(profile).links
    assert link.devices is None and link.bytes_per_second > 0


def test_mpi_moves_but_does_not_reduce_narrow_floats() -> None:
    outcome = ran("all_gather", "all_to_all", "-d", "half,bfloat16", *QUICK, "--json")
    assert outcome.returncode == 0 and all(row["wrong"] == 0 for row in json.loads(outcome.stdout)["records"])
    outcome = ran("all_reduce", "-d", "bfloat16", *QUICK)
    assert outcome.returncode == 2 and "MPI reduces no bf16" in outcome.stderr


def test_emulated_engine_has_one_gpu_per_process() -> None:
    outcome = ran("all_reduce", "sendrecv", *QUICK, "--json", engine="emulated")
    assert outcome.returncode == 0, outcome.stderr
    records = json.loads(outcome.stdout)["records"]
    assert {row["ranks"] for row in records} == {2} and not any(row["wrong"] or row.get("in_wrong") for row in records)
    outcome = ran("all_reduce", "-r", "5", *QUICK, engine="emulated")
    assert outcome.returncode == 2 and outcome.stderr.count("root 5 is not one of the 2 ranks") == 2
