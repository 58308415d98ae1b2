"""What XLA's partitioner makes of a program: the collectives in the text of the executable that it compiles for CPU devices.

`python -m meshgen.benchmarks.xla FILE DEVICES` compiles in a process of its own, where as many CPU devices can be had, and prints XLA's text.
XLA's CPU backend reduces bf16 and f16 in f32: their all_reduces count twice the bytes.
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
    """A collective: our name for it, bytes of the result on a device, its replica groups, and how often a step runs it."""

    op: str
    result_bytes: int
    groups: Groups
    times: int

    def ring_bytes(self, devices: int) -> int:
        """Bytes that a device moves, by the formulas of `meshgen/ccl/cost.py`; without groups all devices are one."""
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
    """XLA's text of the program in a file, for so many devices. Raises OSError with the reason where XLA refuses it."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    paths = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
    own = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}
    words = [sys.executable, "-m", "meshgen.benchmarks.xla", str(path), str(devices)]
    outcome = subprocess.run(words, capture_output=True, text=True, env=own)
    if outcome.returncode:
        raise OSError((outcome.stderr.strip().splitlines() or ["it gives no reason"])[-1][:200])
    return outcome.stdout


def collectives(text: str) -> list[XlaCollective]:
    """The collectives of a step; those of a loop count for each of its known trips, else once."""
    bodies: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            name = match[1]
        bodies.setdefault(name, []).append(line)
    trips = {
        match[1]: (int(count[1]) if (count := _TRIPS.search(line)) else 1, name)
        for name, lines in bodies.items() for line in lines if (match := _WHILE.search(line))
    }  # fmt: skip

    def times(computation: str) -> int:
        count, outer = trips.get(computation, (1, ""))
        return count * times(outer) if outer else 1

    return [found for name, lines in bodies.items() for found in _of_lines(lines, times(name))]


def _of_lines(lines: Sequence[str], times: int) -> Iterator[XlaCollective]:
    for line in lines:
        if match := _OP.search(line):
            kinds = _BITS.findall(match[1])
            if match[3] and match[2] != "all-reduce":  # operands, and then results
                kinds = kinds[len(kinds) // 2 :]
            yield XlaCollective(_OPS[match[2]], sum(map(_nbytes, kinds)), _groups(line), times)


def _nbytes(kind: tuple[str, str]) -> int:
    name, sizes = kind
    bits = 8 if name == "pred" else int(re.sub(r"\D", "", name))
    return int(np.prod([int(size) for size in sizes.split(",") if size], dtype=np.int64)) * bits // 8


def _groups(line: str) -> Groups:
    """Of a collective, in any of XLA's spellings; pairs of a permute are one group, and none at all stand for all devices.

        replica_groups={{0,1},{2,3}}
        replica_groups=[2,2]<=[2,2]T(1,0)                                       numbers in order, transposed, in rows
        replica_groups=mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a'}        along axes of a mesh of such numbers

    Raises OSError for another.
    """
    if match := _IOTA.search(line):
        return _as_groups(_device_numbers(match[2], match[3]).reshape(_parsed_sizes(match[1])))
    if match := _MESH.search(line):
        sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", match[1])}
        numbers = _device_numbers(match[2] or ",".join(map(str, sizes.values())), match[3]).reshape([*sizes.values()])
        axes = [[*sizes].index(name) for name in re.findall(r"'(\w+)'", match[4])]
        others = [n for n in range(len(sizes)) if n not in axes]
        count = math.prod([*sizes.values()][n] for n in axes)
        return _as_groups(numbers.transpose(*others, *axes).reshape(-1, count))
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
    return [int(each) for each in text.split(",") if each]


def _as_groups(numbers: np.ndarray[Any, Any]) -> Groups:
    return tuple(map(tuple, numbers.tolist()))


def seconds(found: Sequence[XlaCollective], mesh: Mesh) -> float:
    """Of all collectives, one after the other, by the cost model: along the fewest axes whose groups hold theirs."""
    return sum(
        each.times * seconds_along(each.op, moved, mesh, _axes_of_groups(each.groups, mesh), 0)
        for each in found
        if (moved := each.ring_bytes(mesh.size))
    )


def _axes_of_groups(groups: Groups, mesh: Mesh) -> tuple[str, ...]:
    wanted = [set(group) for group in groups or [range(mesh.size)]]
    for count in range(1, len(mesh.names) + 1):
        for axes in itertools.combinations(mesh.names, count):
            ours = [set(group) for group in mesh.groups(axes)]
            if all(any(group <= own for own in ours) for group in wanted):
                return axes
    return mesh.names


def figures(text: str, mesh: Mesh) -> Mapping[str, Any]:
    """The fields of a record."""
    found = collectives(text)
    counts: dict[str, int] = {}
    for each in found:
        counts[each.op] = counts.get(each.op, 0) + each.times
    return {
        "collectives": counts,
        "ring_bytes": sum(each.ring_bytes(mesh.size) * each.times for each in found),
        "communication_seconds": seconds(found, mesh),
    }


def _main(path: str, devices: int) -> None:
    """In the process that has the devices. jaxlib's client takes StableHLO's text, with shardings of sdy."""
    backend: Any = import_module("jax.extend.backend")
    client: Any = import_module("jaxlib.xla_client")
    jax: Any = import_module("jax")
    options = client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, devices
    options.device_assignment = client.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    build = options.executable_build_options
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    there = client.DeviceList(tuple(jax.devices()[:devices]))
    made = backend.get_backend().compile_and_load(Path(path).read_bytes(), there, options)
    sys.stdout.write(made.hlo_modules()[0].to_string())


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
