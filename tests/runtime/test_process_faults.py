"""Tests of failing ranks: if one dies, hangs or loses its link, the others end. An interrupt ends all."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import meshgen as mg
from tests.runtime.faults_campaign import (
    MORE_SECONDS,
    PROGRAM,
    TIME_OUT,
    faults_of,
    modules,
    trial,
    victim_command_line,
    words_of,
)
from tests.runtime.launchers import MESHGEN, MPIEXEC, PATIENCE, by_mpiexec, ended, needs_mpi, started
from tests.runtime.two_hosts import RANKS, Hosts, two_hosts

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return modules(tmp_path_factory.mktemp("modules"))


@pytest.mark.parametrize(("fault", "device", "when"), [("kill", "reference", 2), ("stop", "emulate", 3)])
def test_dead_or_hung_rank_ends_other_ranks(fault: str, device: str, when: int, paths, tmp_path: Path) -> None:
    outcomes, seconds = trial(fault, 2, when, paths[device], device, Hosts(), tmp_path)
    assert len(outcomes) == RANKS - 1 and faults_of(outcomes) == []
    assert seconds < TIME_OUT + MORE_SECONDS
    reason = "rank 2 is gone" if fault == "kill" else "no reply within 2 s"
    assert any(reason in ended_rank.err for ended_rank in outcomes)


@needs_root
def test_link_failure_ends_all_ranks(paths, tmp_path: Path) -> None:
    try:
        with two_hosts() as hosts:
            outcomes, _ = trial("link", 0, 1, paths["reference"], "reference", hosts, tmp_path)
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("no network namespaces can be made here")
    assert len(outcomes) == RANKS and faults_of(outcomes) == []


@needs_mpi
@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_dead_or_hung_mpi_rank_ends_other_ranks(fault: str, paths) -> None:
    """If a rank is stopped, the other ranks notice it. If a rank is killed, mpiexec notices it and ends the others."""
    victim_command = " ".join(victim_command_line(fault, 2, paths["reference"], "reference"))
    other_command = " ".join((*MESHGEN, *words_of(paths["reference"], "reference")))
    done = by_mpiexec(
        RANKS, "sh", "-c", f"if [ $PMI_RANK = 1 ]; then exec {victim_command}; else exec {other_command}; fi"
    )
    assert done.returncode != 0
    if fault == "stop":
        messages = re.findall(
            r"MG0609: rank \d waits for ranks? [1-3, ]+ in \w+ over [xy] \(program.mlir:\d+\)", done.stderr
        )
        assert messages and "no reply within 2 s" in done.stderr, done.stderr


def hanging(paths: dict[str, Path]) -> list[subprocess.Popen[str]]:
    """Start ranks of which the last one is stopped, and return when all others wait for it."""
    words = ("run", str(paths["reference"]), "--time-out", f"{2 * PATIENCE}")
    processes = started(
        RANKS, *MESHGEN, *words, own={RANKS - 1: victim_command_line("stop", 1, paths["reference"], "reference")}
    )
    end, before = time.monotonic() + PATIENCE, [""] * RANKS
    while (
        (now := [process_state_and_ticks(process) for process in processes]) != before
        or now[-1][0] != "T"
        or "R" in {t[0] for t in now}
    ):
        assert time.monotonic() < end
        before = now
        time.sleep(0.25)
    return processes


def process_state_and_ticks(process: subprocess.Popen[str]) -> str:
    """Return the state of a process and its used CPU ticks, which are constant while a rank waits."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return " ".join([fields[0], *fields[11:13]])


def test_interrupt_of_one_rank_ends_other_ranks(paths) -> None:
    processes = hanging(paths)
    try:
        processes[0].send_signal(signal.SIGINT)
        for process in processes[1:-1]:
            process.wait(PATIENCE)
    finally:
        processes[-1].kill()
    first, *other_ranks, _ = ended(processes)
    assert first.code == 130 and [ended_rank.code for ended_rank in other_ranks] == [4, 4]
    assert all("rank 0 failed: it was interrupted" in ended_rank.err for ended_rank in other_ranks)


@needs_mpi
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_ranks_end_with_their_launcher(sign: signal.Signals, paths, tmp_path: Path) -> None:
    launcher = MPIEXEC.resolve()
    library = sorted((launcher.parents[1] / "lib").glob("libmpi.so.*"))
    env = os.environ | ({"MPI4PY_LIBMPI": str(library[0])} if library else {})
    run = " ".join((*MESHGEN, "run", str(paths["reference"]), "--time-out", f"{2 * PATIENCE}"))
    command = f"if [ $PMI_RANK = 1 ]; then exec sleep {2 * PATIENCE}; else echo $$ >> {tmp_path}/pids; exec {run}; fi"
    process = subprocess.Popen(
        [str(launcher), "-n", str(RANKS), "sh", "-c", command], env=env, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + PATIENCE
    while not (tmp_path / "pids").exists() or len((tmp_path / "pids").read_text().split()) < RANKS - 1:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(sign)
    process.wait(PATIENCE)
    end = time.monotonic() + PATIENCE
    ranks = [int(text) for text in (tmp_path / "pids").read_text().split()]
    while any(Path(f"/proc/{rank}").exists() for rank in ranks):
        assert time.monotonic() < end, "a rank is left"
        time.sleep(0.05)


STUCK = """
import sys
import time
from meshgen.ccl.sockets import Sockets
from meshgen.ccl.world import World
from meshgen.runtime.cuda.nccl_watchdog import Guard
world = World(Sockets(0, {}), time_out=2)
with Guard(world, "a step") as guard:
    for _ in range(8):
        time.sleep(0.3)
        guard.beat()
with Guard(world, "the initialization of NCCL's communicators"):
    time.sleep(1000)
"""


def test_process_hung_in_call_is_ended_after_timeout() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 4
    text = "MG0609: rank 0 is in the initialization of NCCL's communicators: a call did not return within 2 s"
    assert text in done.stderr


def test_out_of_memory_of_one_rank_is_reported_by_all(tmp_path: Path) -> None:
    """The emulated GPU of rank 1 has only 1 kB of memory."""
    (tmp_path / "program.mlir").write_text(PROGRAM)
    mg.compile(tmp_path / "program.mlir", target="cuda:sm_80").save(tmp_path / "m.mgx")
    program_without_memory = "import sys; from dataclasses import replace; from meshgen.emulator.cuda import machine as m; from meshgen.cli import main; "
    program_without_memory += (
        "m.DEVICE_KINDS['sm_80'] = replace(m.DEVICE_KINDS['sm_80'], memory_bytes=1024); sys.exit(main(sys.argv[1:]))"
    )
    words = ("run", str(tmp_path / "m.mgx"), "--device", "emulate")
    outcomes = ended(started(RANKS, *MESHGEN, *words, own={1: (sys.executable, "-c", program_without_memory, *words)}))
    assert [ended_rank.code for ended_rank in outcomes] == [4] * 4
    assert "MG0604: GPU 0 cannot allocate the arena of rank 1" in outcomes[1].err
    assert all("rank 1 failed: MG0604, GPU 0 cannot allocate" in outcomes[rank].err for rank in (0, 2, 3))


@needs_mpi
@pytest.mark.parametrize("fault", ["exit 130", "sleep 6"])
def test_rank_without_mpi_start_ends_other_ranks_after_timeout(fault: str, paths, tmp_path: Path) -> None:
    """The others wait in MPI_Init, which has no time-out of its own. The launcher may kill some before they exit."""
    run = " ".join((*MESHGEN, "run", str(paths["reference"]), "--time-out", "2"))
    script = f"if [ $PMI_RANK = 1 ]; then {fault}; else {run}; echo $? >> {tmp_path}/codes; fi"
    done = by_mpiexec(RANKS, "sh", "-c", script)
    text = r"MG0609: rank (\d) waits for all 4 ranks in the start of MPI: a call did not return within 2 s"
    assert sorted(re.findall(text, done.stderr)) == ["0", "2", "3"], done.stderr
    assert {*(tmp_path / "codes").read_text().split()} == {"4"}
