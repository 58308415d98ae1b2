"""Tests of generators: rare features of the ODD vocabulary, and functions of nested arguments with keys in any order."""

from __future__ import annotations

from collections import Counter

import numpy as np

from meshgen.axis_refs import nests, split_ref
from meshgen.ir.graph import Module
from meshgen.mlir.text import print_text
from meshgen.testing.generators import ODD
from meshgen.testing.generators.parameters import by_name, names_of, random_parameters, shuffled
from meshgen.testing.random_calls import find_call_mismatch
from meshgen.testing.random_graphs import random_program

SEEDS = range(300)


def _axes(module: Module) -> list[str]:
    shardings = [annotation.sharding for annotation in (*module.in_annotations, *module.out_annotations) if annotation]
    shardings += [node.attrs.sharding for node in module.graph.nodes if node.op == "annotate"]
    return list(dict.fromkeys(axis for sharding in shardings for axis in sharding.used_axes))


def test_odd_programs_contain_rare_features() -> None:
    counts, repeated_operands = Counter[str](), Counter[str]()
    for seed in SEEDS:
        module = random_program(seed, ODD)
        axes = _axes(module)
        counts[f"{len(module.mesh.axes)} axes"] += 1
        counts["an axis factored in two ways"] += any(not nests(a, b) for a in axes for b in axes)
        counts["thirds of twelve"] += any(module.mesh.axis(a).size == 12 and split_ref(a)[2] == 3 for a in axes)
        counts["size 1"] += any(axis.size == 1 for axis in module.mesh.axes)
        counts.update({value.type.dtype for value in module.graph.values()})
        for node in module.graph.nodes:
            repeated_operands[node.op] += len({*node.operands}) < len(node.operands)
    features = [f"{count} axes" for count in range(1, 7)] + [
        "c64",
        "c128",
        "f64",
        "size 1",
        "an axis factored in two ways",
    ]
    assert {feature: counts[feature] for feature in [*features, "thirds of twelve"] if counts[feature] < 5} == {}
    ops = (
        "dot_general",
        "concatenate",
        "select",
        "add",
        "dynamic_update_slice",
        "scatter",
        "sort",
        "while",
        "if",
        "manual",
        "complex",
    )
    assert [op for op in ops if not repeated_operands[op]] == []


def test_odd_program_is_determined_by_seed() -> None:
    for seed in range(4):
        assert print_text(random_program(seed, ODD)) == print_text(random_program(seed, ODD))
        assert random_parameters(seed) == random_parameters(seed)


def test_shuffled_arguments_have_same_leaves() -> None:
    rng = np.random.default_rng(0)
    orders = 0
    for seed in range(20):
        for tree in random_parameters(seed).parameters:
            other = shuffled(tree, rng)
            assert other == tree and by_name(tree, other) == {name: name for name in names_of(tree)}
            orders += names_of(other) != names_of(tree)
    assert orders > 5


def test_swapped_leaves_change_result() -> None:
    nested = next(
        candidate for seed in range(20) if len(names_of((candidate := random_parameters(seed)).parameters)) > 3
    )
    names = names_of(nested.parameters)
    leaf_values = {name: np.int32(10**n) for n, name in enumerate(names)}
    first, last = names[0], names[-1]
    swapped_values = leaf_values | {first: leaf_values[last], last: leaf_values[first]}
    totals = [nested.program(*nested.filled(leaves.__getitem__))[0] for leaves in (leaf_values, swapped_values)]
    assert totals[0] == sum(count * 10**n for n, count in enumerate(range(1, len(names) + 1))) != totals[1]


def test_nested_arguments_bind_as_traced() -> None:
    assert [find_call_mismatch(seed, in_any_order=False) for seed in range(3)] == [""] * 3
