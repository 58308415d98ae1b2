"""Run lowered collectives with one rank per process and compare them with their reference semantics.

mpiexec -n 4 python -m tests.ccl.check_mpi --count 200 --seed 1
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from meshgen.ccl.collective import Collective
from meshgen.ccl.host import HostBuffers
from meshgen.ccl.lower import lower
from meshgen.ccl.process_transport import Processes
from meshgen.ccl.steps import OPERAND, RESULT, SCRATCH, BufferRef, Group, dense
from meshgen.ccl.transport import execute
from meshgen.ccl.world import World
from meshgen.errors import RuntimeFailure
from meshgen.ir.graph import Node
from meshgen.ir.group_calls import single_operand_calls
from meshgen.mesh import Mesh, make_mesh
from meshgen.runtime.processes.bootstrap import world
from tests.ccl.lowered import JUNK, Array, defined, meant, same
from tests.ccl.random_collectives import Case, random_bytes, random_case


def case_of(rng: np.random.Generator, ranks: int) -> Case:
    """Return a random collective on a mesh of `ranks` devices. All processes get the same one from equal `rng` states."""
    while True:
        if (case := random_case(rng)).mesh.size == ranks:
            return case


def is_right(node: Node, transport: Processes, rng: np.random.Generator) -> bool:
    """Whether this process computes the result that the reference gives for its rank."""
    mesh, rank = transport.mesh, transport.rank
    operands = [[random_bytes(rng, value.type) for _ in range(mesh.size)] for value in node.operands]
    lowered = lower(Collective.of(node, mesh), rank)
    results = [np.full(value.type.nbytes, JUNK, np.uint8) for value in node.results]
    memory = {BufferRef("result", number): array for number, array in enumerate(results)}
    for number, shards in enumerate(operands):
        memory[BufferRef("operand", number)] = np.frombuffer(shards[rank].tobytes(), np.uint8)
    with np.errstate(all="ignore"):
        execute(lowered, HostBuffers(memory | {SCRATCH: np.full(lowered.scratch_bytes, JUNK, np.uint8)}), transport)
        calls = zip(single_operand_calls(node), operands, results, strict=True)
        return all(_has_expected_result(call, mesh, rank, shards, result) for call, shards, result in calls)


def _has_expected_result(node: Node, mesh: Mesh, rank: int, shards: list[Array], result: Array) -> bool:
    expected, mask = meant(node, mesh, shards)[rank], defined(node, mesh)[rank]
    actual = result.view(node.result.type.numpy_dtype).reshape(node.result.type.sizes)
    return same(actual[mask], expected[mask], moves="kind" not in node.attrs.given)


def leave_peers_alone(own_world: World) -> int:
    """On rank 0, call a collective that no other rank calls, and report its time-out; the other ranks sleep."""
    transport = Processes(own_world, [make_mesh({"x": own_world.size})])
    box = dense(OPERAND, "ui8", (4,))
    memory = HostBuffers({OPERAND: np.zeros(4, np.uint8), RESULT: np.zeros(4 * own_world.size, np.uint8)})
    if own_world.rank:
        time.sleep(60)
    call = Group("all_gather", "", "ui8", 4, box, dense(RESULT, "ui8", (4 * own_world.size,)), ("x",))
    try:
        with own_world.doing(lambda: "all_gather along x"):
            transport.groups([call], memory)
    except RuntimeFailure as failure:
        sys.stderr.write(f"{failure}\n")
        sys.stderr.flush()
        own_world.fail(str(failure))
    return 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="rank 0 waits for a rank that never answers")
    args = parser.parse_args()
    own_world = world(0.3 if args.alone else 60.0)
    assert own_world, "start it with mpiexec"
    if args.alone:
        return leave_peers_alone(own_world)
    wrong = 0
    for number in range(args.count):
        rng = np.random.default_rng((args.seed, number))
        case = case_of(rng, own_world.size)
        if not is_right(case.node, Processes(own_world, [case.mesh]), rng):
            wrong += 1
            sys.stdout.write(f"rank {own_world.rank}: seed {args.seed}, number {number}: {case}\n")
    total = sum(int(count) for count in own_world.all_gather("wrong", str(wrong).encode()))
    if own_world.rank == 0:
        sys.stdout.write(f"{args.count} collectives on {own_world.size} ranks, {total} wrong\n")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
