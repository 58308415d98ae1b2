"""A module with one rank per process: the bits of the ranks that run in one process.

mpiexec -n 4 python -m tests.runtime.check_mpi module.mgx
"""

from __future__ import annotations

import sys

import numpy as np

from meshgen.ccl.mpi import Mpi, world
from meshgen.runtime.execute import Rank, run_alone
from meshgen.runtime.launch import evaluated
from meshgen.runtime.loading import load
from meshgen.runtime.reference import place_arguments
from meshgen.runtime.simulate import assemble
from tests.ccl.lowered import Array


def main() -> int:
    module, processes = load(sys.argv[1]), world()
    rng = np.random.default_rng(1)
    args = {b.name: rng.integers(1, 4, b.type.sizes).astype(b.type.numpy_dtype) for b in module.inputs}
    transport = Mpi(processes, [part.mesh for part in module.parts])
    part = next(part for part in module.parts if part.mesh == transport.mesh)
    rank = Rank(part.schedule, part.mesh, transport.rank, evaluated(part.manifest), transport.first_rank)
    place_arguments(part.manifest, part._constants, [args[b.name] for b in part.inputs], rank.frame, transport.rank)
    run_alone(rank, transport)
    mine = [rank.frame.view(binding.buffer).copy() for binding in part.manifest.outputs]
    shards = processes.gather(mine)
    return 0 if shards is None else compare(module, transport, shards, args)


def compare(module, transport: Mpi, shards: list[list[Array]], args: dict[str, Array]) -> int:
    """Joins what the ranks have, mesh by mesh, and runs all of them in this process."""
    found: list[Array] = []
    for part in module.parts:
        first = transport.first_rank[part.mesh.name]
        own = shards[first : first + part.mesh.size]
        for number, b in enumerate(part.manifest.outputs):
            found.append(assemble([each[number] for each in own], b.sharding, b.type.sizes, part.mesh))
    wanted = module.run(args)
    differ = sorted(a.tobytes() for a in found) != sorted(a.tobytes() for a in wanted)
    sys.stdout.write(f"{len(found)} outputs of {len(shards)} ranks, {'other' if differ else 'equal'} bits\n")
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
