"""The collectives of XLA's partitioner, read from the text of an executable that XLA compiles for CPU devices.

`python -m meshgen.benchmarks.xla FILE DEVICES` compiles in a process of its own, which can have that many CPU devices,
and prints XLA's text.
XLA's CPU backend reduces bf16 and f16 in f32, so their all_reduces count twice the bytes.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from meshgen.ccl.links import seconds_along
from meshgen.mesh import Mesh

_OPS = {
    "all-reduce": "all_reduce", "all-gather": "all_gather", "reduce-scatter": "reduce_scatter", "all-to-all": "all_to_all",
    "collective-permute": "shift",
}  # fmt: skip
_BITS = re.compile(r"(pred|[a-z]+\d+)\w*\[([\d,]*)\]")
_OP = re.compile(rf"= (.*?) ({'|'.join(_OPS)})(-start)?\(")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(
    r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{((?:'\w+',? ?)+)\}"
)
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_WHILE = re.compile(r"body=%?([\w.-]+)")
_TRIPS = re.compile(r'known_trip_count\D+"(\d+)"')
Groups = tuple[tuple[int, ...], ...]


class XlaCollective(NamedTuple):
    """A collective: meshgen's name of the op, bytes of the result on a device, replica groups, and executions per step."""

    op: str
    result_bytes: int
    groups: Groups
    times: int

    def ring_bytes(self, devices: int) -> int:
        """Return the bytes that a device moves, by the formulas of `meshgen/ccl/cost.py`. Without groups, all devices
        form one group.
        """
        n = max(map(len, self.groups), default=devices)
        match self.op:
            case "all_reduce":
                return -(-2 * (n - 1) * self.result_bytes // n)
            case "all_gather" | "all_to_all":
                return (n - 1) * self.result_bytes // n
            case "reduce_scatter":
                return (n - 1) * self.result_bytes
            case _:
                return self.result_bytes


def compiled_text(path: Path, devices: int) -> str:
    """Return XLA's text of the program in a file, compiled for `devices` devices. Raises OSError with XLA's error if it
    rejects the program.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    paths = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}
    command = [sys.executable, "-m", "meshgen.benchmarks.xla", str(path), str(devices)]
    outcome = subprocess.run(command, capture_output=True, text=True, env=environment)
    if outcome.returncode:
        raise OSError((outcome.stderr.strip().splitlines() or ["it gives no reason"])[-1][:200])
    return outcome.stdout


def collectives(text: str) -> list[XlaCollective]:
    """Return the collectives of a step. A collective in a loop is counted once per iteration if the trip count is
    known, else once.
    """
    bodies: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            name = match[1]
        bodies.setdefault(name, []).append(line)
    loops = {
        match[1]: (int(count[1]) if (count := _TRIPS.search(line)) else 1, name)
        for name, lines in bodies.items() for line in lines if (match := _WHILE.search(line))
    }  # fmt: skip

    def times(computation: str) -> int:
        count, outer = loops.get(computation, (1, ""))
        return count * times(outer) if outer else 1

    return [collective for name, lines in bodies.items() for collective in _of_lines(lines, times(name))]


def _of_lines(lines: Sequence[str], times: int) -> Iterator[XlaCollective]:
    for line in lines:
        if match := _OP.search(line):
            types = _BITS.findall(match[1])
            if match[3] and match[2] != "all-reduce":  # an asynchronous op lists its operands before its results
                types = types[len(types) // 2 :]
            yield XlaCollective(_OPS[match[2]], sum(map(_nbytes, types)), _groups(line), times)


def _nbytes(kind: tuple[str, str]) -> int:
    name, sizes = kind
    bits = 8 if name == "pred" else int(re.sub(r"\D", "", name))
    return int(np.prod([int(size) for size in sizes.split(",") if size], dtype=np.int64)) * bits // 8


def _groups(line: str) -> Groups:
    """Parse the replica groups of a collective in any of XLA's spellings.

    The pairs of a permute form one group. An empty list of groups means all devices.

        replica_groups={{0,1},{2,3}}
        replica_groups=[2,2]<=[2,2]T(1,0)                                       device indices, transposed, in rows
        replica_groups=mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a'}        along axes of a mesh of device indices

    Raises OSError for another spelling.
    """
    if match := _IOTA.search(line):
        return _as_groups(_device_numbers(match[2], match[3]).reshape(_parsed_sizes(match[1])))
    if match := _MESH.search(line):
        sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", match[1])}
        devices = _device_numbers(match[2] or ",".join(map(str, sizes.values())), match[3]).reshape([*sizes.values()])
        axes = [[*sizes].index(name) for name in re.findall(r"'(\w+)'", match[4])]
        other_axes = [n for n in range(len(sizes)) if n not in axes]
        count = math.prod([*sizes.values()][n] for n in axes)
        return _as_groups(devices.transpose(*other_axes, *axes).reshape(-1, count))
    if match := re.search(r"(?:replica_groups|source_target_pairs)=\{(\{.*?\})?\}", line):
        rows = [_parsed_sizes(row) for row in re.findall(r"\{([\d,]+)\}", match[1] or "")]
        return (
            (tuple(sorted({n for row in rows for n in row})),)
            if "source_target" in match[0]
            else tuple(map(tuple, rows))
        )
    raise OSError(f"unknown groups of a collective: {line.strip():.120}")


def _device_numbers(shape: str, order: str | None) -> np.ndarray[Any, Any]:
    sizes = _parsed_sizes(shape)
    return np.arange(math.prod(sizes)).reshape(sizes).transpose(_parsed_sizes(order) if order else range(len(sizes)))


def _parsed_sizes(text: str) -> list[int]:
    return [int(size) for size in text.split(",") if size]


def _as_groups(numbers: np.ndarray[Any, Any]) -> Groups:
    return tuple(map(tuple, numbers.tolist()))


def seconds(collectives_of_step: Sequence[XlaCollective], mesh: Mesh) -> float:
    """Return the predicted seconds of all collectives, one after the other.

    Each collective is costed along the fewest mesh axes whose groups contain its groups.
    """
    return sum(
        collective.times * seconds_along(collective.op, moved, mesh, _axes_of_groups(collective.groups, mesh), 0)
        for collective in collectives_of_step
        if (moved := collective.ring_bytes(mesh.size))
    )


def _axes_of_groups(groups: Groups, mesh: Mesh) -> tuple[str, ...]:
    target_groups = [set(group) for group in groups or [range(mesh.size)]]
    for count in range(1, len(mesh.names) + 1):
        for axes in itertools.combinations(mesh.names, count):
            axis_groups = [set(group) for group in mesh.groups(axes)]
            if all(any(group <= axis_group for axis_group in axis_groups) for group in target_groups):
                return axes
    return mesh.names


def figures(text: str, mesh: Mesh) -> Mapping[str, Any]:
    """Return the figures of XLA's partitioned program as the fields of a record."""
    collectives_of_step = collectives(text)
    counts: dict[str, int] = {}
    for collective in collectives_of_step:
        counts[collective.op] = counts.get(collective.op, 0) + collective.times
    return {
        "collectives": counts,
        "ring_bytes": sum(collective.ring_bytes(mesh.size) * collective.times for collective in collectives_of_step),
        "communication_seconds": seconds(collectives_of_step, mesh),
    }


def _main(path: str, devices: int) -> None:
    """Compile a program in this process, which has `devices` CPU devices. The client of jaxlib accepts StableHLO text
    with sdy shardings.
    """
    backend: Any = import_module("jax.extend.backend")
    client: Any = import_module("jaxlib.xla_client")
    jax: Any = import_module("jax")
    options = client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, devices
    options.device_assignment = client.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    build = options.executable_build_options
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    device_list = client.DeviceList(tuple(jax.devices()[:devices]))
    executable = backend.get_backend().compile_and_load(Path(path).read_bytes(), device_list, options)
    sys.stdout.write(executable.hlo_modules()[0].to_string())


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
