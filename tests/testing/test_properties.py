"""Tests of properties that the sharding passes have for every program, on random programs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import Annotation, Graph, Module, Node, NodeSharding, Value
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Timing, run_stages
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimizations.walk import total_bytes
from meshgen.sharding.optimize import LOCAL_PASSES, PASSES
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.spec import Sharding
from meshgen.testing.oracle import check
from meshgen.testing.random_graphs import random_program
from meshgen.testing.random_programs import options_of
from tests.trials import trials

GROUPS = trials(10)
READ_BACK = trials(2)  # number of groups whose programs are parsed back from text at every stage
SIZE = 8  # number of programs in a group, so that a failure names few seeds
ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=len(GROUPS) * SIZE)
def propagated(seed: int) -> Module:
    """Return the program of `seed` after propagation; cached, since tests do not change it."""
    return propagate(random_program(seed))


def seeds(group: int) -> range:
    return range(group * SIZE, (group + 1) * SIZE)


# Propagation ---------------------------------------------------------------------------------------------------


def _sharding_of(node: Node) -> NodeSharding:
    assert node.sharding is not None, f"{node.op} has no sharding"
    return node.sharding


def _annotate(value: Value, sharding: Sharding) -> Node:
    attrs = {"sharding": sharding, "required": True, "as_result": True, "open_dims": ()}
    return Node("annotate", [value], [Value(value.type, value.name)], attrs)


def _renamed(graph: Graph, replacements: Mapping[Value, Value]) -> Graph:
    nodes = [
        replace(
            n,
            operands=[replacements.get(v, v) for v in n.operands],
            regions=tuple(_renamed(r, replacements) for r in n.regions),
            sharding=None,
        )
        for n in graph.nodes
    ]
    return Graph(graph.name, graph.inputs, nodes, [replacements.get(v, v) for v in graph.outputs])


def _carried(body: Graph, node_sharding: NodeSharding) -> Graph:
    """Annotate the carried values of a loop body with their propagated shardings."""
    notes = [_annotate(value, sharding) for value, sharding in zip(body.inputs, node_sharding.results, strict=True)]
    body = _renamed(body, {note.operands[0]: note.result for note in notes})
    return replace(body, nodes=[*notes, *body.nodes])


def _with_options(body: Graph, done: Graph) -> Graph:
    """Return `body` with the sharding options that propagation chose for the corresponding nodes of `done`."""
    nodes: list[Node] = []
    for node, decided in zip(body.nodes, done.nodes, strict=True):
        if node.op in ("if", "case"):
            regions = tuple(map(_with_options, node.regions, decided.regions))
            nodes.append(replace(node, regions=regions))
        elif node.op in ("while", "annotate"):
            nodes.append(node)
        else:
            nodes.append(replace(node, option=_sharding_of(decided).option))
    return replace(body, nodes=nodes)


def decompose_unsupported(done: Module) -> tuple[Module, list[Node]]:
    """Return the program as before propagation, with every propagated sharding as a required annotation or an option.

    Also returns the counterparts of the nodes of `done`, in order.
    """
    replacements: dict[Value, Value] = {}
    nodes: list[Node] = []
    copies: list[Node] = []
    for node in done.graph.nodes:
        (copy,) = _renamed(Graph("one", [], [node]), replacements).nodes
        node_sharding = _sharding_of(node)
        if node.op == "annotate":
            copy.attrs = replace(node.attrs, sharding=node_sharding.results[0], required=True, open_dims=())
        elif node.op == "while":
            copy.regions = (copy.regions[0], _carried(copy.regions[1], node_sharding))
        elif node.op in ("if", "case"):
            copy.regions = tuple(map(_with_options, copy.regions, node.regions))
        else:
            copy.option = node_sharding.option
        copies.append(copy)
        notes = (
            []
            if node.op == "annotate"
            else [_annotate(v, s) for v, s in zip(node.results, node_sharding.results, strict=True)]
        )
        replacements |= {note.operands[0]: note.result for note in notes}
        nodes += [copy, *notes]
    outputs = [replacements.get(value, value) for value in done.graph.outputs]
    graph = Graph(done.graph.name, done.graph.inputs, nodes, outputs)
    annotations = [[Annotation(sharding) for sharding in side] for side in (done.in_shardings, done.out_shardings)]
    return replace(done, graph=graph, stage="import", in_annotations=annotations[0], out_annotations=annotations[1],
                   in_shardings=[], out_shardings=[]), copies  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_propagation_is_idempotent(group: int) -> None:
    for seed in seeds(group):
        done = propagated(seed)
        module, copies = decompose_unsupported(done)
        indices = [number for number, node in enumerate(module.graph.nodes) if any(node is other for other in copies)]
        again = propagate(module)
        assert (again.in_shardings, again.out_shardings) == (done.in_shardings, done.out_shardings), f"seed {seed}"
        for node, index in zip(done.graph.nodes, indices, strict=True):
            repeated, first = _sharding_of(again.graph.nodes[index]), _sharding_of(node)
            assert repeated.results == first.results, f"seed {seed}: {node.op}"
            assert node.op == "annotate" or repeated.operands == first.operands, f"seed {seed}: {node.op}"


def _used(node: Node) -> Iterator[Value]:
    yield from node.operands
    for region in node.regions:
        yield from region.outputs
        for inner in region.nodes:
            yield from _used(inner)


def shuffled(graph: Graph, rng: np.random.Generator) -> Graph:
    """Return the graph with its nodes, and those of regions, in a random topological order."""
    defined, remaining, order = set(graph.inputs), list(graph.nodes), list[Node]()
    local_values = {value for node in graph.nodes for value in node.results}
    while remaining:
        ready = [
            node for node in remaining if all(value in defined or value not in local_values for value in _used(node))
        ]
        node = ready[int(rng.integers(len(ready)))]
        remaining.remove(node)
        order.append(replace(node, regions=tuple(shuffled(region, rng) for region in node.regions)))
        defined.update(node.results)
    return replace(graph, nodes=order)


def _value_shardings(graph: Graph) -> dict[Value, Sharding]:
    """Return the sharding of every value that a node or a region of a control-flow node defines."""
    shardings: dict[Value, Sharding] = {}
    for node in graph.nodes:
        shardings |= zip(node.results, _sharding_of(node).results, strict=True)
        for region in node.regions if node.op in ("while", "case", "if") else ():
            shardings |= _value_shardings(region)
    return shardings


def _collectives(graph: Graph) -> Counter[str]:
    counts = Counter[str]()
    for node in graph.nodes:
        if "axes" in node.attrs.given or node.op in ("permute", "retile"):
            attrs = sorted((name, str(value)) for name, value in node.attrs.given.items())
            counts[f"{node.op} {attrs} {[str(v.type) for v in (*node.operands, *node.results)]}"] += 1
        for region in node.regions:
            counts += _collectives(region)
    return counts


@pytest.mark.parametrize("group", GROUPS)
def test_propagation_is_independent_of_program_order(group: int) -> None:
    """Another order of independent ops gives the same sharding of every value, and the same collectives."""
    for seed in seeds(group):
        module, done = random_program(seed), propagated(seed)
        other = propagate(replace(module, graph=shuffled(module.graph, np.random.default_rng(seed))))
        assert (other.in_shardings, other.out_shardings) == (done.in_shardings, done.out_shardings), f"seed {seed}"
        shardings, reordered = _value_shardings(done.graph), _value_shardings(other.graph)
        assert [v for v in shardings if v in reordered and reordered[v] != shardings[v]] == [], f"seed {seed}"
        collectives, reordered_collectives = (
            _collectives(materialize(propagated_module).graph) for propagated_module in (done, other)
        )
        assert collectives == reordered_collectives, f"seed {seed}"


def digest(count: int) -> str:
    """Return a digest of the texts of `count` random programs after stage optimize."""
    hash_ = hashlib.sha256()
    for seed in range(count):
        stages = run_stages(random_program(seed), options_of(seed), Timing(), "optimize")
        hash_.update(print_text(stages["optimize"]).encode())
    return hash_.hexdigest()


def test_propagation_is_independent_of_hash_seed() -> None:
    """This process has compiled other programs. A new process with another hash seed must get the same digest."""
    program = "from tests.testing.test_properties import digest; print(digest(15))"
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    other = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert other.stdout.strip() == digest(15)


def _keeps(annotation: Annotation, actual: Sharding, module: Module, shape: tuple[int, ...]) -> bool:
    """Whether a required annotation was kept. Additional axes are allowed if they have size 1 or shard an open dim."""
    mesh = module.mesh
    requested = annotation.sharding.without_even_offsets(shape, mesh).canonical(mesh)
    actual = actual.canonical(mesh)
    # each axis is the product of its sub-axes, major to minor
    parts = AxisParts.of(mesh, [*requested.used_axes, *actual.used_axes])
    split = [[parts.refine(axes) for axes in sharding.dims] for sharding in (requested, actual)]
    dims = zip(*split, [*annotation.open_dims, *[False] * requested.rank], strict=False)
    return (
        all(axes == actual_axes if not is_open else actual_axes[: len(axes)] == axes for axes, actual_axes, is_open in dims)
        and (actual.partial, actual.halo, actual.offsets) == (requested.partial, requested.halo, requested.offsets)
    )  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_propagation_keeps_required_annotations(group: int) -> None:
    for seed in seeds(group):
        module, done = random_program(seed), propagated(seed)
        annotated = [
            *zip(module.in_annotations, done.in_shardings, module.graph.inputs, strict=True),
            *zip(module.out_annotations, done.out_shardings, module.graph.outputs, strict=True),
        ]
        for node in done.graph.nodes:
            if node.op == "annotate":
                attrs = node.attrs
                annotation = Annotation(attrs.sharding, attrs.required, attrs.open_dims)
                annotated.append((annotation, _sharding_of(node).results[0], node.result))
        for annotation, sharding, value in annotated:
            if annotation and annotation.required:
                assert _keeps(annotation, sharding, module, value.type.sizes), (
                    f"seed {seed}: {annotation} became {sharding}"
                )


# Optimizations --------------------------------------------------------------------------------------------------

FEWEST_PASSES = 6  # number of passes that change some random program; tests of their own cover the other passes


def _has_changed(before: Module, after: Module) -> bool:
    """Whether a pass changed the program, from the modules before and after."""
    ops = [[(n.op, n.operands, n.results) for n in module.graph.nodes] for module in (before, after)]
    return ops[0] != ops[1]


def test_each_pass_preserves_results_and_moves_no_more_bytes() -> None:
    changes_by_pass = Counter[str]()
    for seed in range(len(GROUPS) * SIZE):
        module = random_program(seed)
        before = materialize(propagated(seed))
        local = partition(before)
        starts = [*((pass_, before) for pass_ in dict.fromkeys(PASSES)), *((pass_, local) for pass_ in LOCAL_PASSES)]
        for optimization, start in starts:
            after = optimization(start)
            if not _has_changed(start, after):
                continue
            context = f"seed {seed}, {optimization.name}"
            changes_by_pass[optimization.name] += 1
            assert total_bytes(after.graph, module.mesh) <= total_bytes(start.graph, module.mesh), context
            local = after if after.stage == "partition" else partition(after)
            result = check(module, pipeline=lambda _, local=local: local, seed=seed)
            assert result.ok, f"{context}: {result.faults[0]}"
    assert len(changes_by_pass) >= FEWEST_PASSES, f"random programs give work to {dict(changes_by_pass)} only"


# Text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", READ_BACK)
def test_every_stage_of_random_program_parses_back(group: int) -> None:
    """Parsing turns values that a loop captures into operands, so programs are parsed once before they are compared."""
    for seed in seeds(group):
        program = random_program(seed)
        module = parse_text(print_text(program))
        stages = run_stages(module, options_of(seed), Timing(), "schedule")
        for stage, stage_module in stages.items():
            text = print_text(stage_module)
            assert print_text(parse_text(text)) == text, f"seed {seed}, stage {stage}"
        local = stages["partition"]
        assert check(program, pipeline=lambda _, local=local: local, seed=seed).ok, f"seed {seed}: another program"
