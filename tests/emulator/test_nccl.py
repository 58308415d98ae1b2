"""Tests of the emulated NCCL: results of collectives, their order, and errors if ranks do not match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from meshgen.ccl.nccl_types import DATA_TYPES, NO_COLOR, REDUCTIONS, Result
from meshgen.ccl.simulated import reduce_arrays
from tests.emulator.rig import Array, Rig, ok

F32, SUM = DATA_TYPES["f32"], REDUCTIONS["sum"]


class Ranks(Rig):
    """The device, stream, communicator and two buffers of each rank."""

    def __init__(self, ranks: int, seed: int = 0, races: bool = False, values: list[Array] | None = None) -> None:
        super().__init__(ranks, seed, races)
        self.ranks = range(ranks)
        self.values = values or [np.arange(8, dtype=np.float32) + 100 * rank for rank in self.ranks]
        uid = ok(self.nccl.ncclGetUniqueId())
        ok(self.nccl.ncclGroupStart())
        self.comms, self.streams, self.sources, self.targets = [], [], [], []
        for rank in self.ranks:
            self.use(rank)
            self.comms.append(ok(self.nccl.ncclCommInitRank(ranks, uid, rank, "world")))
            self.streams.append(self.stream())
            self.sources.append(self.array(self.values[rank]))
            self.targets.append(self.room(self.values[rank].nbytes * ranks))
        ok(self.nccl.ncclGroupEnd())

    def each(self, call: Callable[[int], tuple[Any, ...]], ranks: Any = None) -> None:
        """Issue `call` for each rank, all in one NCCL group."""
        ok(self.nccl.ncclGroupStart())
        for rank in self.ranks if ranks is None else ranks:
            ok(call(rank))
        ok(self.nccl.ncclGroupEnd())

    def finish(self) -> None:
        for stream in self.streams:
            ok(self.driver.cuStreamSynchronize(stream))

    def result(self, rank: int, count: int, dtype: Any = np.float32) -> Array:
        self.use(rank)
        return self.read(self.targets[rank], count, dtype)

    def all_reduce(self, rank: int, count: int = 8, dtype: int = F32, op: int = SUM) -> tuple[Any, ...]:
        return self.nccl.ncclAllReduce(
            self.sources[rank], self.targets[rank], count, dtype, op, self.comms[rank], self.streams[rank]
        )


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "i32", "ui8", "f8E4M3FN"])
def test_all_reduce_matches_simulated_ranks_bitwise(kind: str, dtype: str) -> None:
    numpy = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "i32": np.int32, "ui8": np.uint8,
             "f8E4M3FN": ml_dtypes.float8_e4m3fn}[dtype]  # fmt: skip
    rng = np.random.default_rng(0)
    values = [
        np.asarray(rng.standard_normal(8) * 3 if numpy not in (np.uint8,) else rng.integers(0, 9, 8)).astype(numpy)
        for _ in range(3)
    ]
    ranks = Ranks(3, values=values)
    ranks.each(lambda rank: ranks.all_reduce(rank, 8, DATA_TYPES[dtype], REDUCTIONS[kind]))
    ranks.finish()
    expected = reduce_arrays(values, kind, dtype)
    for rank in ranks.ranks:
        assert ranks.result(rank, 8, numpy).tobytes() == expected.tobytes()


def test_nccl_gather_scatter_broadcast_and_reduce() -> None:
    ranks = Ranks(2)
    api, values = ranks.nccl, ranks.values
    ranks.each(
        lambda r: api.ncclAllGather(ranks.sources[r], ranks.targets[r], 8, F32, ranks.comms[r], ranks.streams[r])
    )
    ranks.finish()
    assert (ranks.result(1, 16) == np.concatenate(values)).all()
    ranks.each(
        lambda r: api.ncclReduceScatter(
            ranks.sources[r], ranks.targets[r], 4, F32, SUM, ranks.comms[r], ranks.streams[r]
        )
    )
    ranks.finish()
    assert (ranks.result(1, 4) == (values[0] + values[1])[4:]).all()
    ranks.each(
        lambda r: api.ncclBroadcast(ranks.sources[r], ranks.targets[r], 8, F32, 1, ranks.comms[r], ranks.streams[r])
    )
    ranks.finish()
    assert (ranks.result(0, 8) == values[1]).all()
    before = ranks.result(0, 8)
    ranks.each(
        lambda r: api.ncclReduce(ranks.sources[r], ranks.targets[r], 8, F32, SUM, 1, ranks.comms[r], ranks.streams[r])
    )
    ranks.finish()
    assert (ranks.result(1, 8) == values[0] + values[1]).all() and (ranks.result(0, 8) == before).all()


def exchange(ranks: Ranks, rank: int) -> None:
    """Issue the messages of one rank of an all-to-all."""
    for peer in ranks.ranks:
        comm, stream = ranks.comms[rank], ranks.streams[rank]
        ok(ranks.nccl.ncclSend(ranks.sources[rank] + 16 * peer, 4, F32, peer, comm, stream))
        ok(ranks.nccl.ncclRecv(ranks.targets[rank] + 16 * peer, 4, F32, peer, comm, stream))


@pytest.mark.parametrize("seed", range(4))
def test_grouped_messages_form_all_to_all(seed: int) -> None:
    ranks = Ranks(2, seed, races=True)
    ok(ranks.nccl.ncclGroupStart())
    for rank in ranks.ranks:
        exchange(ranks, rank)
    ok(ranks.nccl.ncclGroupEnd())
    ranks.finish()
    assert ranks.result(1, 8).tolist() == [*ranks.values[0][4:], *ranks.values[1][4:]]


def test_captured_collective_runs_at_each_launch() -> None:
    ranks = Ranks(2, races=True)
    origin, event = ranks.streams[0], None
    ranks.use(0)
    event = ranks.event()
    ok(ranks.driver.cuStreamBeginCapture(origin, 1))
    ok(ranks.driver.cuEventRecord(event, origin))
    ok(ranks.driver.cuStreamWaitEvent(ranks.streams[1], event, 0))
    ranks.each(ranks.all_reduce)
    ranks.use(1)
    ranks.order(ranks.streams[1], origin)
    graph = ok(ranks.driver.cuGraphInstantiate(ok(ranks.driver.cuStreamEndCapture(origin)), 0))
    for _ in range(2):
        ok(ranks.driver.cuGraphLaunch(graph, origin))
    ok(ranks.driver.cuStreamSynchronize(origin))
    assert (ranks.result(1, 8) == sum(ranks.values)).all()


def fault(ranks: Ranks) -> str:
    for stream in ranks.streams:
        ranks.driver.cuStreamSynchronize(stream)
    assert ranks.machine.fault
    return str(ranks.machine.fault)


def test_missing_rank_of_collective_is_named() -> None:
    ranks = Ranks(3)
    ranks.each(ranks.all_reduce, [0, 2])
    message = fault(ranks)
    assert "all_reduce (sum) of 8 f32 by rank 0 of world waits for rank 1 in collective 0 of world" in message
    assert "deadlock" in message


@pytest.mark.parametrize("change, message_part", [
    ({"count": 4}, "rank 1: all_reduce (sum) of 4 f32"),
    ({"dtype": DATA_TYPES["i32"]}, "rank 1: all_reduce (sum) of 8 i32"),
    ({"op": REDUCTIONS["max"]}, "rank 1: all_reduce (max) of 8 f32"),
])  # fmt: skip
def test_disagreeing_ranks_are_named(change: dict[str, int], message_part: str) -> None:
    ranks = Ranks(3)
    ranks.each(lambda rank: ranks.all_reduce(rank, **(change if rank == 1 else {})))
    message = fault(ranks)
    assert (
        "collective 0 of world disagree: ranks 0, 2: all_reduce (sum) of 8 f32" in message and message_part in message
    )


def test_collectives_in_different_order_are_detected() -> None:
    ranks = Ranks(2)

    def gather(rank: int) -> tuple[Any, ...]:
        return ranks.nccl.ncclAllGather(
            ranks.sources[rank], ranks.targets[rank], 8, F32, ranks.comms[rank], ranks.streams[rank]
        )

    ok(ranks.all_reduce(0))
    ok(gather(0))
    ok(gather(1))
    ok(ranks.all_reduce(1))
    assert "rank 0: all_reduce (sum) of 8 f32; rank 1: all_gather of 8 f32" in fault(ranks)


def test_send_without_recv_is_a_deadlock() -> None:
    ranks = Ranks(2)
    ok(ranks.nccl.ncclSend(ranks.sources[0], 4, F32, 1, ranks.comms[0], ranks.streams[0]))
    assert "send of 4 f32 to rank 1 by rank 0 of world waits for rank 1 in message 0 of world" in fault(ranks)


def test_ungrouped_mutual_messages_deadlock() -> None:
    ranks = Ranks(2)
    for rank in ranks.ranks:
        comm, stream = ranks.comms[rank], ranks.streams[rank]
        ok(ranks.nccl.ncclSend(ranks.sources[rank], 4, F32, 1 - rank, comm, stream))
        ok(ranks.nccl.ncclRecv(ranks.targets[rank], 4, F32, 1 - rank, comm, stream))
    assert "deadlock" in fault(ranks)


def test_send_and_recv_of_different_sizes_are_detected() -> None:
    ranks = Ranks(2)
    ok(ranks.nccl.ncclSend(ranks.sources[0], 4, F32, 1, ranks.comms[0], ranks.streams[0]))
    ok(ranks.nccl.ncclRecv(ranks.targets[1], 5, F32, 0, ranks.comms[1], ranks.streams[1]))
    assert "rank 0: send of 4 f32 to rank 1; rank 1: recv of 5 f32 from rank 0" in fault(ranks)


def split(ranks: Ranks, color: Callable[[int], int], key: Callable[[int], int]) -> list[Any]:
    ok(ranks.nccl.ncclGroupStart())
    communicators = [ok(ranks.nccl.ncclCommSplit(ranks.comms[r], color(r), key(r), "part")) for r in ranks.ranks]
    ok(ranks.nccl.ncclGroupEnd())
    return communicators


def test_comm_split_groups_by_color_and_orders_by_key() -> None:
    ranks = Ranks(4)
    communicators = split(ranks, lambda rank: rank % 2 if rank < 3 else NO_COLOR, lambda rank: -rank)
    assert [ok(ranks.nccl.ncclCommCount(comm)) for comm in communicators[:3]] == [2, 1, 2]
    assert [ok(ranks.nccl.ncclCommUserRank(comm)) for comm in communicators[:3]] == [1, 0, 0]
    assert communicators[3].value is None
    assert ok(ranks.nccl.ncclCommCuDevice(communicators[2])) == 2


@pytest.mark.parametrize("seed", range(6))
def test_two_communicators_in_different_order_deadlock(seed: int) -> None:
    """NCCL kernels occupy multiprocessors while they wait, and the two ranks wait in different collectives."""
    ranks = Ranks(2, seed)
    other = split(ranks, lambda rank: 0, lambda rank: rank)
    for rank in ranks.ranks:
        both = [ranks.comms[rank], other[rank]]
        for comm in both if rank else both[::-1]:
            ok(
                ranks.nccl.ncclAllReduce(
                    ranks.sources[rank], ranks.targets[rank], 8, F32, SUM, comm, ranks.streams[rank]
                )
            )
    message = fault(ranks)
    assert "deadlock" in message and "in collective 0 of part" in message and "in collective 0 of world" in message


@pytest.mark.parametrize("is_ordered", [False, True])
def test_communicators_in_two_streams_require_launch_order(is_ordered: bool) -> None:
    """All ranks issue two collectives in the same order, to two streams.

    Without NCCL's launch order, devices may start them in different orders.
    """
    faults: list[bool] = []
    for seed in range(12):
        ranks = Ranks(2, seed)
        ranks.machine.orders_launches = is_ordered
        other = split(ranks, lambda rank: 0, lambda rank: rank)
        for rank in ranks.ranks:
            ranks.use(rank)
            ranks.streams.append(ranks.stream())
            for comm, stream in ((ranks.comms[rank], ranks.streams[rank]), (other[rank], ranks.streams[-1])):
                target = ranks.targets[rank] + (32 if comm is other[rank] else 0)
                ok(ranks.nccl.ncclAllReduce(ranks.sources[rank], target, 8, F32, SUM, comm, stream))
        for stream in ranks.streams:
            ranks.driver.cuStreamSynchronize(stream)
        faults.append("deadlock" in str(ranks.machine.fault))
    assert any(faults) != is_ordered


def test_abort_ends_waiting_calls_and_notifies_peers() -> None:
    ranks = Ranks(2)
    ok(ranks.all_reduce(0))
    ok(ranks.nccl.ncclCommAbort(ranks.comms[0]))
    ok(ranks.driver.cuStreamSynchronize(ranks.streams[0]))
    assert ok(ranks.nccl.ncclCommGetAsyncError(ranks.comms[1])) == Result.ncclRemoteError
    assert ok(ranks.nccl.ncclCommGetAsyncError(ranks.comms[0])) == Result.ncclSuccess
    assert ranks.all_reduce(0)[0] == Result.ncclInvalidUsage


def test_communicator_must_be_finalized_before_destroy() -> None:
    ranks = Ranks(2)
    ranks.each(ranks.all_reduce)
    assert ranks.nccl.ncclCommDestroy(ranks.comms[0])[0] == Result.ncclInvalidUsage
    for rank in ranks.ranks:
        ok(ranks.nccl.ncclCommFinalize(ranks.comms[rank]))
        ok(ranks.nccl.ncclCommDestroy(ranks.comms[rank]))
    assert ranks.all_reduce(0)[0] == Result.ncclInvalidArgument


@pytest.mark.parametrize("end", ["ncclCommDestroy", "ncclCommAbort"])
def test_graph_must_be_destroyed_before_communicator(end: str) -> None:
    """NCCL waits for graphs that contain its calls, even in an abort."""
    rig = Ranks(1)
    ok(rig.driver.cuStreamBeginCapture(rig.streams[0], 1))
    rig.each(rig.all_reduce)
    graph = ok(rig.driver.cuStreamEndCapture(rig.streams[0]))
    executable = ok(rig.driver.cuGraphInstantiate(graph, 0))
    ok(rig.driver.cuGraphDestroy(graph))
    assert getattr(rig.nccl, end)(rig.comms[0]) == (Result.ncclUnhandledCudaError,)
    assert "before graphs with its calls" in str(rig.machine.fault)
    rig.machine.fault = None
    ok(rig.driver.cuGraphExecDestroy(executable))
    ok(getattr(rig.nccl, end)(rig.comms[0]))


def test_invalid_communicator_is_rejected() -> None:
    rig = Rig(2)
    uid = ok(rig.nccl.ncclGetUniqueId())
    assert rig.nccl.ncclCommInitRank(2, uid, 2)[0] == Result.ncclInvalidArgument
    ok(rig.nccl.ncclGroupStart())
    for rank in range(2):
        ok(rig.nccl.ncclCommInitRank(2, uid, rank))
    assert rig.nccl.ncclGroupEnd()[0] == Result.ncclInvalidUsage
    assert "several ranks are using the same GPU" in rig.nccl.ncclGetLastError()
    assert rig.nccl.ncclGroupEnd()[0] == Result.ncclInvalidUsage
    rig.nccl.ncclCommInitRank(2, ok(rig.nccl.ncclGetUniqueId()), 0)
    assert "waits for ranks 1" in str(rig.machine.fault)


@pytest.mark.parametrize("call", [
    lambda r: r.nccl.ncclAllReduce(r.sources[0], r.targets[0], 8, 99, SUM, r.comms[0], r.streams[0]),
    lambda r: r.nccl.ncclAllReduce(r.sources[0], r.targets[0], 8, F32, 99, r.comms[0], r.streams[0]),
    lambda r: r.nccl.ncclAllReduce(r.sources[0], r.targets[0], -1, F32, SUM, r.comms[0], r.streams[0]),
    lambda r: r.nccl.ncclAllReduce(r.sources[0], r.sources[0] + 4, 4, F32, SUM, r.comms[0], r.streams[0]),
    lambda r: r.nccl.ncclSend(r.sources[0], 4, F32, 7, r.comms[0], r.streams[0]),
])  # fmt: skip
def test_invalid_nccl_argument_is_rejected(call: Callable[[Ranks], tuple[Any, ...]]) -> None:
    assert call(Ranks(2))[0] == Result.ncclInvalidArgument


def test_stream_of_other_device_is_rejected() -> None:
    ranks = Ranks(2)
    outcome = ranks.nccl.ncclAllReduce(
        ranks.sources[0], ranks.targets[0], 8, F32, SUM, ranks.comms[0], ranks.streams[1]
    )
    assert outcome[0] == Result.ncclInvalidUsage
    assert ranks.nccl.ncclGetErrorString(outcome[0]) == "invalid usage"


def test_in_place_all_gather_and_empty_call_succeed() -> None:
    ranks = Ranks(2, races=True)
    for rank in ranks.ranks:
        ranks.use(rank)
        values = ranks.values[rank]
        ok(ranks.driver.cuMemcpyHtoD(ranks.targets[rank] + 32 * rank, values.ctypes.data, values.nbytes))
    sources = [target + 32 * rank for rank, target in enumerate(ranks.targets)]
    ranks.each(
        lambda r: ranks.nccl.ncclAllGather(sources[r], ranks.targets[r], 8, F32, ranks.comms[r], ranks.streams[r])
    )
    # a collective of zero elements does not wait for other ranks
    ranks.each(lambda r: ranks.all_reduce(r, count=0), [0])
    ranks.finish()
    assert (ranks.result(0, 16) == np.concatenate(ranks.values)).all()
