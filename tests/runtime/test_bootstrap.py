"""Tests of start-up: processes get their rank from the variables of launchers, and connect without a launcher."""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import meshgen as mg
from meshgen.ccl import rendezvous
from meshgen.ccl.world import World
from meshgen.cli import main
from meshgen.errors import MeshgenError, RuntimeFailure, UsageError
from meshgen.runtime.processes.bootstrap import Place, joined, place_of
from tests.runtime.launchers import free_port

MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": "none", **MEETING}  # fmt: skip
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1"}
SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1"}
PLACE = Place(3, 8, 1, ("127.0.0.1", 29500), through_store=False, has_launcher=False)


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        (TORCHRUN, replace(PLACE, through_store=True, has_launcher=True)),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", **MEETING}, PLACE),
        ({"RANK": "3", "WORLD_SIZE": "8", **MEETING}, replace(PLACE, local_rank=None)),
        (OPEN_MPI, replace(PLACE, address=None, has_launcher=True)),
        (MPICH, replace(PLACE, address=None, has_launcher=True)),
        (SRUN, replace(PLACE, address=None, has_launcher=True)),
        (SRUN | {"CUDA_VISIBLE_DEVICES": "1"}, replace(PLACE, local_rank=0, address=None, has_launcher=True)),
        (SRUN | {"CUDA_VISIBLE_DEVICES": "0,1"}, replace(PLACE, address=None, has_launcher=True)),
        (SRUN | MEETING, replace(PLACE, has_launcher=True)),
        (TORCHRUN | {"PMI_RANK": "0", "PMI_SIZE": "2"}, replace(PLACE, through_store=True, has_launcher=True)),
        ({}, None),
        ({"WORLD_SIZE": "1"}, None),
        ({"WORLD_SIZE": "many"}, None),
    ],
)
def test_rank_is_read_from_launcher_variables(variables: dict[str, str], place: Place | None) -> None:
    assert place_of(variables) == place


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "2", **MEETING}, "WORLD_SIZE is 2, but RANK is not set"),
        ({"WORLD_SIZE": "2", "RANK": "x", **MEETING}, "RANK is 'x', not a number"),
        ({"WORLD_SIZE": "2", "RANK": "2", **MEETING}, r"RANK is 2, but there are 2 processes"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "MASTER_ADDR and MASTER_PORT are not set"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": "1"}, "MASTER_ADDR is not set"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "70000"}, "MASTER_PORT is 70000"),
        ({"PMI_SIZE": "2"}, "PMI_SIZE is 2, but PMI_RANK is not set"),
        ({"WORLD_SIZE": "1", "RANK": "3"}, r"RANK is 3, but there is 1 process \(WORLD_SIZE\)"),
        ({"WORLD_SIZE": "0", "RANK": "0"}, "RANK is 0, but there are 0 processes"),
        ({"RANK": "0"}, "RANK is 0, but WORLD_SIZE is not set"),
        ({"RANK": "1", "WORLD_SIZE": "two"}, "RANK is 1, but WORLD_SIZE is 'two', not a number"),
        (MPICH | {"MASTER_ADDR": "h"}, "MASTER_PORT is not set"),
    ],
)
def test_bad_launcher_variable_is_named(variables: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=f"MG0611: .*{message}"):
        place_of(variables)


def meet(rank_places: list[Place], time_out: float = 20.0) -> dict[int, World | MeshgenError]:
    """Let a thread per entry of `rank_places` join the others. Return the world or the error of each, by index."""
    outcomes: dict[int, World | MeshgenError] = {}

    def join(number: int, place: Place) -> None:
        try:
            outcomes[number] = joined(place, time_out)
        except MeshgenError as error:
            outcomes[number] = error

    threads = [threading.Thread(target=join, args=numbered_place) for numbered_place in enumerate(rank_places)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def rank_places(count: int, size: int | None = None) -> list[Place]:
    address = ("127.0.0.1", free_port())
    return [replace(PLACE, rank=rank, size=size or count, address=address) for rank in range(count)]


def closed(worlds: list[World]) -> None:
    threads = [threading.Thread(target=world.close) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_ranks_connect_and_all_gather() -> None:
    worlds = [world for _, world in sorted(meet(rank_places(3)).items())]
    gathered: dict[int, list[bytes]] = {}

    def gather(world: World) -> None:
        gathered[world.rank] = [bytes(part) for part in world.all_gather("name", bytes([world.rank]) * 3_000_000)]

    threads = [threading.Thread(target=gather, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gathered == {receiver: [bytes([rank]) * 3_000_000 for rank in range(3)] for receiver in range(3)}
    closed(worlds)


def test_missing_rank_is_named_after_timeout() -> None:
    outcomes = meet(rank_places(2, size=4), time_out=3)
    assert "MG0609: rank 0 timed out waiting for ranks 2, 3 to start" in str(outcomes[0])
    assert "MG0609: rank 0 refused rank 1: rank 0 timed out waiting for ranks 2, 3 to start" in str(outcomes[1])


def test_missing_rank_0_is_named_after_timeout() -> None:
    (outcome,) = meet(rank_places(2)[1:], time_out=3).values()
    assert "MG0609: rank 1 cannot reach rank 0 (MASTER_ADDR=127.0.0.1" in str(outcome)


def test_disagreeing_process_counts_are_reported() -> None:
    first, second = rank_places(2)
    outcomes = meet([first, replace(second, size=3)])
    text = "rank 1 was started with 3 processes, but rank 0 with 2"
    assert all(f"MG0609: {start}{text}" in str(outcomes[n]) for n, start in ((0, ""), (1, "rank 0 refused rank 1: ")))


def test_duplicate_rank_is_reported() -> None:
    first, second = rank_places(2, size=3)
    outcomes = meet([first, second, second])
    assert "MG0609: two processes have rank 1" in str(outcomes[0])


@pytest.mark.parametrize(
    "content", [b"", b"GET / HTTP/1.1\r\n\r\n", struct.pack("<I", 4) + b"null", struct.pack("<I", 2) + b"{}"]
)
def test_unrelated_client_does_not_disturb_rendezvous(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_IDENTIFY_SECONDS", 0.2)
    both = rank_places(2)
    address = both[0].address
    assert address

    are_met = threading.Event()

    def knock() -> None:
        while not are_met.is_set():
            try:
                with socket.create_connection(address, timeout=5) as stranger:
                    stranger.sendall(content)
                    time.sleep(0.3)
                return
            except ConnectionError:  # rank 0 is not listening yet, or has stopped listening
                time.sleep(0.01)

    stranger = threading.Thread(target=knock)
    stranger.start()
    outcomes = meet(both)
    are_met.set()
    stranger.join()
    assert all(isinstance(outcome, World) for outcome in outcomes.values()), outcomes
    closed([outcome for outcome in outcomes.values() if isinstance(outcome, World)])


def test_unusable_master_address_is_rejected() -> None:
    first = replace(PLACE, rank=0, size=2, address=("192.0.2.7", 29500))
    with pytest.raises(UsageError, match=r"MG0611: .*192\.0\.2\.7"):
        joined(first, 1.0)
    with pytest.raises(UsageError, match=r"MG0611: MASTER_ADDR is 'no\.such.host.invalid'"):
        joined(replace(first, address=("no.such.host.invalid", 29500)), 1.0)


def test_closed_world_rejects_use() -> None:
    worlds = [world for _, world in sorted(meet(rank_places(2)).items())]
    closed(worlds)
    with pytest.raises(RuntimeFailure, match="MG0609: the ranks have disconnected"):
        worlds[0].listen()


@pytest.mark.parametrize("entry", ["run", "load"])
def test_wrong_process_count_is_rejected_before_connecting(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.mgx"
    mg.compile(lambda x: x + 1, {"a": 2}, args=["f32[4]"], target="cpu").save(path)

    def connect(*_: object) -> None:
        raise AssertionError("it waits for the others")

    monkeypatch.setattr("meshgen.runtime.processes.bootstrap.joined", connect)
    for name, value in {"WORLD_SIZE": "3", "RANK": "0", **MEETING}.items():
        monkeypatch.setenv(name, value)
    if entry == "load":
        with pytest.raises(MeshgenError, match="MG0603"):
            mg.load(path)
    else:
        assert main(["run", str(path)]) == 5
        assert "the module is for 2 devices (Mesh(a=2)), but 3 processes were started" in capsys.readouterr().err
