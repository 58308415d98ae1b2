"""Random StableHLO collectives without a mesh, compared with a NumPy model of the specification."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.mlir.text import parse_text, print_text

Array = np.ndarray[Any, Any]
Groups = list[list[int]]
BODIES: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "add": ("%r = stablehlo.add %a, %b", np.add),
    "maximum": ("%r = stablehlo.maximum %a, %b", np.maximum),
    "second less first": ("%r = stablehlo.subtract %b, %a", lambda a, b: b - a),
}


class Program:
    """A program under construction: its text, and the values that each device has computed so far."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.replicas, self.partitions = [(1, 6), (6, 1), (2, 3), (4, 2), (1, 8)][seed % 5]
        self.count = self.replicas * self.partitions
        shape = (int(self.rng.integers(1, 4)) * 12, int(self.rng.integers(1, 4)))
        self.start = self.rng.integers(-4, 5, (self.count, *shape)).astype(np.float32)
        self.values: list[Array] = list(self.start)
        self.lines: list[str] = []

    @property
    def kind(self) -> str:
        return f"tensor<{'x'.join(map(str, self.values[0].shape))}xf32>"

    @property
    def text(self) -> str:
        body = "\n".join(self.lines)
        start = "x".join(map(str, self.start.shape[1:]))
        return f"""module attributes {{mhlo.num_replicas = {self.replicas} : i32, mhlo.num_partitions = {self.partitions} : i32}} {{
func.func @main(%v0: tensor<{start}xf32>) -> {self.kind} {{
{body}
return %v{len(self.lines)} : {self.kind}
}}
}}"""

    def groups(self, equal: bool) -> tuple[Groups, str]:
        """Return random groups of devices and their text. StableHLO numbers group members in one of three modes."""
        numbering = str(self.rng.choice(["devices", "replicas", "both"]))
        rows = self.rows(self.count if numbering == "devices" else self.replicas, equal)
        if numbering == "devices":
            return rows, f"{rows_of(rows)}, {CHANNEL}, use_global_device_ids"
        if numbering == "replicas":
            groups_per_partition = [
                [r * self.partitions + p for r in row] for p in range(self.partitions) for row in rows
            ]
            return groups_per_partition, rows_of(rows)
        joint_groups = [[r * self.partitions + p for p in range(self.partitions) for r in row] for row in rows]
        return joint_groups, f"{rows_of(rows)}, {CHANNEL}"

    def rows(self, count: int, equal: bool) -> Groups:
        """Partition `count` ids into groups in random order. All groups have the same size if `equal`."""
        order = [int(n) for n in self.rng.permutation(count)]
        if equal:
            size = int(self.rng.choice([n for n in range(1, count + 1) if count % n == 0]))
            return [order[at : at + size] for at in range(0, count, size)]
        cuts = sorted({0, count, *(int(n) for n in self.rng.integers(0, count, 2))})
        return [order[a:b] for a, b in itertools.pairwise(cuts)]

    def emit(self, op: str, attrs: str, values: list[Array], region: str = "") -> None:
        before, number = self.kind, len(self.lines)
        self.values = values
        self.lines.append(
            f'  %v{number + 1} = "stablehlo.{op}"(%v{number}) <{{{attrs}}}> {region} : ({before}) -> {self.kind}'
        )

    def reduce(self, equal: bool) -> None:
        (groups, attrs), name = self.groups(equal), str(self.rng.choice(list(BODIES)))
        line, function = BODIES[name]
        region = f"({{\n ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n {line} : tensor<f32>\n stablehlo.return %r : tensor<f32>\n}})"
        results = list(self.values)
        for group in groups:
            folded = self.values[group[0]]
            for device in group[1:]:
                folded = function(folded, self.values[device])
            for device in group:
                results[device] = folded
        self.emit("all_reduce", attrs, results, region)

    def gather(self) -> None:
        groups, attrs = self.groups(equal=True)
        if self.values[0].size * len(groups[0]) <= 2000:
            results = list(self.values)
            for group in groups:
                for device in group:
                    results[device] = np.concatenate([self.values[member] for member in group])
            self.emit("all_gather", f"all_gather_dim = 0 : i64, {attrs}", results)

    def scatter(self) -> None:
        groups, attrs = self.groups(equal=True)
        if self.values[0].shape[0] % len(groups[0]) == 0:
            results = list(self.values)
            for group in groups:
                parts = np.split(np.sum([self.values[member] for member in group], axis=0), len(group))
                for device, part in zip(group, parts, strict=True):
                    results[device] = part
            region = "({\n ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n %r = stablehlo.add %a, %b : tensor<f32>\n stablehlo.return %r : tensor<f32>\n})"
            self.emit("reduce_scatter", f"scatter_dimension = 0 : i64, {attrs}", results, region)

    def send(self) -> None:
        """Append a collective_permute between partitions within each replica. A partition without a source gets zeros."""
        order = [int(n) for n in self.rng.permutation(self.partitions)]
        pairs = [(a, b) for a, b in enumerate(order) if self.rng.random() < 0.7] or [(0, 0)]
        results = [np.zeros_like(value) for value in self.values]
        for replica in range(self.replicas):
            for a, b in pairs:
                results[replica * self.partitions + b] = self.values[replica * self.partitions + a]
        self.emit(
            "collective_permute",
            f"source_target_pairs = dense<{[list(p) for p in pairs]}> : tensor<{len(pairs)}x2xi64>, {CHANNEL}",
            results,
        )

    def exchange(self) -> None:
        """Append an all_to_all between partitions within each replica."""
        rows = self.rows(self.partitions, equal=True)
        width = len(rows[0])
        if self.values[0].shape[0] % width == 0:
            results = list(self.values)
            for replica in range(self.replicas):
                for row in rows:
                    group = [replica * self.partitions + member for member in row]
                    parts = [np.split(self.values[member], width) for member in group]
                    for position, device in enumerate(group):
                        results[device] = np.concatenate([part[position] for part in parts], axis=1)
            attrs = "split_dimension = 0 : i64, concat_dimension = 1 : i64"
            self.emit("all_to_all", f"{attrs}, split_count = {width} : i64, {rows_of(rows)}, {CHANNEL}", results)

    def grow(self) -> Program:
        choices = [
            lambda: self.reduce(True),
            lambda: self.reduce(False),
            self.gather,
            self.scatter,
            self.send,
            self.exchange,
        ]
        for _ in range(4):
            choices[int(self.rng.integers(len(choices)))]()
        return self


CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"


def rows_of(groups: Groups) -> str:
    """Return the replica groups as a matrix attribute. Shorter groups are padded with -1."""
    width = max(map(len, groups))
    rows = [group + [-1] * (width - len(group)) for group in groups]
    return f"replica_groups = dense<{rows}> : tensor<{len(rows)}x{width}xi64>"


@pytest.mark.parametrize("group", range(4))
def test_random_collectives_match_numpy_model(group: int) -> None:
    for seed in range(group * 10, group * 10 + 10):
        program = Program(seed).grow()
        module = parse_text(program.text)
        assert print_text(parse_text(print_text(module))) == print_text(module)
        results = mg.compile(program.text, target="cpu")(program.start.reshape(-1, program.start.shape[-1]))
        np.testing.assert_array_equal(results, np.concatenate(program.values), f"seed {seed}\n{program.text}")
