"""Random programs with Shardy groups and barriers: they are correct, or rejected because group members cannot agree."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Graph, Module, Value
from meshgen.ir.regions import rewired
from meshgen.mlir.text import parse_text, print_text
from meshgen.testing.random_graphs import random_program
from meshgen.testing.random_programs import find_fault, options_of

DIRECTIONS = ("NONE", "FORWARD", "BACKWARD")


class GroupsAndBarriers:
    """Adds random sharding groups (one per shape) and propagation barriers to the values of a module."""

    def __init__(self, module: Module, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 7])
        self.old, self.new = module.graph, Graph(module.graph.name, module.graph.inputs)
        self.groups: dict[tuple[int, ...], int] = {}
        self.now: dict[Value, Value] = {}
        for value in self.old.inputs:
            self._annotate(value, 0.25, 0.0)
        for node in self.old.nodes:
            self.new.nodes.append(rewired(node, self.now))
            if node.op not in ("annotate", "constant") and len(node.results) == 1:
                self._annotate(node.result, 0.25, 0.15)
        self.new.outputs = [self.now.get(value, value) for value in self.old.outputs]
        module.graph = self.new

    def _annotate(self, value: Value, member: float, barrier: float) -> None:
        draw = self.rng.random()
        if draw < barrier:
            attrs = {"direction": DIRECTIONS[int(self.rng.integers(3))]}
            self.now[value] = self.new.add("propagation_barrier", [value], [value.type], attrs).result
        elif draw < barrier + member and value.type.rank:
            group_index = self.groups.setdefault(value.type.sizes, len(self.groups))
            self.now[value] = self.new.add(
                "sharding_group", [value], [value.type], {"group": group_index}, name=value.name
            ).result


@pytest.mark.parametrize("group", range(4))
def test_random_programs_with_groups_and_barriers_are_correct(group: int) -> None:
    refused = 0
    for seed in range(group * 10, group * 10 + 10):
        module = random_program(seed)
        GroupsAndBarriers(module, seed)
        fault = find_fault(parse_text(print_text(module)), options_of(seed), seed)
        is_refused = fault is not None and "members of sharding group" in fault.text
        assert fault is None or is_refused, f"seed {seed}: {fault}\n{print_text(module)}"
        refused += is_refused
    assert refused <= 1
