"""Laws of the sharding passes, on random programs: what holds whatever the program."""

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
from meshgen.sharding.optimizations.rewrite import total_bytes
from meshgen.sharding.optimize import LOCAL_PASSES, PASSES
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.spec import Sharding
from meshgen.testing.oracle import check
from meshgen.testing.random_graphs import random_program
from meshgen.testing.random_programs import options_of
from tests.trials import trials

GROUPS = trials(10)
READ_BACK = trials(2)  # those whose text is read back at every stage
SIZE = 8  # programs of a group, so that a failure names a few
ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=len(GROUPS) * SIZE)
def propagated(seed: int) -> Module:
    """The seed's program after propagation; tests do not change it."""
    return propagate(random_program(seed))


def seeds(group: int) -> range:
    return range(group * SIZE, (group + 1) * SIZE)


# Propagation ---------------------------------------------------------------------------------------------------


def _lies(node: Node) -> NodeSharding:
    assert node.sharding is not None, f"{node.op} has no sharding"
    return node.sharding


def _note(value: Value, sharding: Sharding) -> Node:
    attrs = {"sharding": sharding, "required": True, "as_result": True, "open_dims": ()}
    return Node("annotate", [value], [Value(value.type, value.name)], attrs)


def _renamed(graph: Graph, put: Mapping[Value, Value]) -> Graph:
    nodes = [
        replace(
            n,
            operands=[put.get(v, v) for v in n.operands],
            regions=tuple(_renamed(r, put) for r in n.regions),
            sharding=None,
        )
        for n in graph.nodes
    ]
    return Graph(graph.name, graph.inputs, nodes, [put.get(v, v) for v in graph.outputs])


def _carried(body: Graph, lies: NodeSharding) -> Graph:
    """A loop's body with annotations of what is carried."""
    notes = [_note(value, sharding) for value, sharding in zip(body.inputs, lies.results, strict=True)]
    body = _renamed(body, {note.operands[0]: note.result for note in notes})
    return replace(body, nodes=[*notes, *body.nodes])


def _with_options(body: Graph, done: Graph) -> Graph:
    """A branch with the options that propagation chose in it, as `done` has them."""
    nodes: list[Node] = []
    for node, decided in zip(body.nodes, done.nodes, strict=True):
        if node.op in ("if", "case"):
            regions = tuple(map(_with_options, node.regions, decided.regions))
            nodes.append(replace(node, regions=regions))
        elif node.op in ("while", "annotate"):
            nodes.append(node)
        else:
            nodes.append(replace(node, option=_lies(decided).option))
    return replace(body, nodes=nodes)


def written_out(done: Module) -> tuple[Module, list[Node]]:
    """The program at stage import with everything that propagation decided as required annotations and options.

    Returns it with its nodes that stand for those of `done`, in order.
    """
    put: dict[Value, Value] = {}
    nodes: list[Node] = []
    same: list[Node] = []
    for node in done.graph.nodes:
        (copy,) = _renamed(Graph("one", [], [node]), put).nodes
        lies = _lies(node)
        if node.op == "annotate":
            copy.attrs = replace(node.attrs, sharding=lies.results[0], required=True, open_dims=())
        elif node.op == "while":
            copy.regions = (copy.regions[0], _carried(copy.regions[1], lies))
        elif node.op in ("if", "case"):
            copy.regions = tuple(map(_with_options, copy.regions, node.regions))
        else:
            copy.option = lies.option
        same.append(copy)
        notes = [] if node.op == "annotate" else [_note(v, s) for v, s in zip(node.results, lies.results, strict=True)]
        put |= {note.operands[0]: note.result for note in notes}
        nodes += [copy, *notes]
    outputs = [put.get(value, value) for value in done.graph.outputs]
    graph = Graph(done.graph.name, done.graph.inputs, nodes, outputs)
    wishes = [[Annotation(sharding) for sharding in side] for side in (done.in_shardings, done.out_shardings)]
    return replace(done, graph=graph, stage="import", in_annotations=wishes[0], out_annotations=wishes[1],
                   in_shardings=[], out_shardings=[]), same  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_propagation_is_idempotent(group: int) -> None:
    for seed in seeds(group):
        done = propagated(seed)
        module, same = written_out(done)
        places = [number for number, node in enumerate(module.graph.nodes) if any(node is other for other in same)]
        again = propagate(module)
        assert (again.in_shardings, again.out_shardings) == (done.in_shardings, done.out_shardings), f"seed {seed}"
        for node, place in zip(done.graph.nodes, places, strict=True):
            found, wanted = _lies(again.graph.nodes[place]), _lies(node)
            assert found.results == wanted.results, f"seed {seed}: {node.op}"
            assert node.op == "annotate" or found.operands == wanted.operands, f"seed {seed}: {node.op}"


def _used(node: Node) -> Iterator[Value]:
    yield from node.operands
    for region in node.regions:
        yield from region.outputs
        for inner in region.nodes:
            yield from _used(inner)


def shuffled(graph: Graph, rng: np.random.Generator) -> Graph:
    """The nodes in another order that puts makers before users, those of regions too."""
    made, left, order = set(graph.inputs), list(graph.nodes), list[Node]()
    own = {value for node in graph.nodes for value in node.results}
    while left:
        ready = [node for node in left if all(value in made or value not in own for value in _used(node))]
        node = ready[int(rng.integers(len(ready)))]
        left.remove(node)
        order.append(replace(node, regions=tuple(shuffled(region, rng) for region in node.regions)))
        made.update(node.results)
    return replace(graph, nodes=order)


def _lying(graph: Graph) -> dict[Value, Sharding]:
    """How every value that a node or a region of it makes lies."""
    found: dict[Value, Sharding] = {}
    for node in graph.nodes:
        found |= zip(node.results, _lies(node).results, strict=True)
        for region in node.regions if node.op in ("while", "case", "if") else ():
            found |= _lying(region)
    return found


def _collectives(graph: Graph) -> Counter[str]:
    found = Counter[str]()
    for node in graph.nodes:
        if "axes" in node.attrs.given or node.op in ("permute", "retile"):
            attrs = sorted((name, str(value)) for name, value in node.attrs.given.items())
            found[f"{node.op} {attrs} {[str(v.type) for v in (*node.operands, *node.results)]}"] += 1
        for region in node.regions:
            found += _collectives(region)
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_propagation_does_not_depend_on_the_order_of_the_program(group: int) -> None:
    """Another order of independent ops has the same sharding of every value, and the same collectives."""
    for seed in seeds(group):
        module, done = random_program(seed), propagated(seed)
        other = propagate(replace(module, graph=shuffled(module.graph, np.random.default_rng(seed))))
        assert (other.in_shardings, other.out_shardings) == (done.in_shardings, done.out_shardings), f"seed {seed}"
        lies, same = _lying(done.graph), _lying(other.graph)
        assert [v for v in lies if v in same and same[v] != lies[v]] == [], f"seed {seed}"
        moves, others = (_collectives(materialize(each).graph) for each in (done, other))
        assert moves == others, f"seed {seed}"


def digest(count: int) -> str:
    """Of the text of programs after optimize."""
    found = hashlib.sha256()
    for seed in range(count):
        stages = run_stages(random_program(seed), options_of(seed), Timing(), "optimize")
        found.update(print_text(stages["optimize"]).encode())
    return found.hexdigest()


def test_propagation_does_not_depend_on_hashes() -> None:
    """Here, where other programs were compiled before, and in a process with other hashes, which begins with them."""
    program = "from tests.testing.test_properties import digest; print(digest(15))"
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    other = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert other.stdout.strip() == digest(15)


def _keeps(wish: Annotation, found: Sharding, module: Module, shape: tuple[int, ...]) -> bool:
    """Whether a required annotation was kept: as it is, but for axes of size 1 and further axes on open dims."""
    mesh = module.mesh
    asked = wish.sharding.without_even_offsets(shape, mesh).canonical(mesh)
    found = found.canonical(mesh)
    parts = AxisParts.of(mesh, [*asked.used_axes, *found.used_axes])  # all of an axis is its parts, major to minor
    split = [[parts.refine(axes) for axes in each.dims] for each in (asked, found)]
    dims = zip(*split, [*wish.open_dims, *[False] * asked.rank], strict=False)
    return (
        all(axes == more if not is_open else more[: len(axes)] == axes for axes, more, is_open in dims)
        and (found.partial, found.halo, found.offsets) == (asked.partial, asked.halo, asked.offsets)
    )  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_propagation_keeps_required_annotations(group: int) -> None:
    for seed in seeds(group):
        module, done = random_program(seed), propagated(seed)
        ends = [
            *zip(module.in_annotations, done.in_shardings, module.graph.inputs, strict=True),
            *zip(module.out_annotations, done.out_shardings, module.graph.outputs, strict=True),
        ]
        for node in done.graph.nodes:
            if node.op == "annotate":
                attrs = node.attrs
                wish = Annotation(attrs.sharding, attrs.required, attrs.open_dims)
                ends.append((wish, _lies(node).results[0], node.result))
        for wish, sharding, value in ends:
            if wish and wish.required:
                assert _keeps(wish, sharding, module, value.type.sizes), f"seed {seed}: {wish} became {sharding}"


# Optimisations -------------------------------------------------------------------------------------------------

FEWEST_PASSES = 6  # that find something in a random program; the others have tests of their own


def _improves(before: Module, after: Module) -> bool:
    """Whether a pass changed anything."""
    ops = [[(n.op, n.operands, n.results) for n in module.graph.nodes] for module in (before, after)]
    return ops[0] != ops[1]


def test_every_pass_alone_keeps_the_results_and_moves_no_more() -> None:
    found = Counter[str]()
    for seed in range(len(GROUPS) * SIZE):
        module = random_program(seed)
        before = materialize(propagated(seed))
        local = partition(before)
        starts = [*((each, before) for each in dict.fromkeys(PASSES)), *((each, local) for each in LOCAL_PASSES)]
        for optimization, start in starts:
            after = optimization(start)
            if not _improves(start, after):
                continue
            what = f"seed {seed}, {optimization.name}"
            found[optimization.name] += 1
            assert total_bytes(after.graph, module.mesh) <= total_bytes(start.graph, module.mesh), what
            local = after if after.stage == "partition" else partition(after)
            result = check(module, pipeline=lambda _, local=local: local, seed=seed)
            assert result.ok, f"{what}: {result.faults[0]}"
    assert len(found) >= FEWEST_PASSES, f"random programs give work to {dict(found)} only"


# Text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", READ_BACK)
def test_every_stage_prints_and_reads_back(group: int) -> None:
    """Reading hands a loop what it uses from around it, so programs are read once before they are compared."""
    for seed in seeds(group):
        program = random_program(seed)
        module = parse_text(print_text(program))
        stages = run_stages(module, options_of(seed), Timing(), "schedule")
        for stage, each in stages.items():
            text = print_text(each)
            assert print_text(parse_text(text)) == text, f"seed {seed}, stage {stage}"
        local = stages["partition"]
        assert check(program, pipeline=lambda _, local=local: local, seed=seed).ok, f"seed {seed}: another program"
