"""Chains around collectives: how far they grow, and that a program in chunks computes the same."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from numpy.testing import assert_array_equal

from meshgen.codegen.fuse import fuse
from meshgen.codegen.passes.loop_unroll import loop_unroll
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.types.inference import verify_node
from meshgen.pipeline import Timing, run_stages
from meshgen.runtime.simulate import simulate
from meshgen.sharding.chunks.chain import Flow, Seed
from meshgen.sharding.chunks.rewrite import in_chunks
from meshgen.testing.oracle import check
from meshgen.testing.random_programs import options_of, program_of
from tests.sharding.chunks.chunk_programs import block, chain, chunked, collectives, local
from tests.sharding.local_programs import whole_numbers
from tests.trials import trials

TEXT = block(8, 12, 16, layers=2)


def _ops(module: Module) -> Counter[str]:
    return Counter(node.op for node in module.graph.nodes)


def _same_numbers(before: Module, after: Module) -> None:
    args = [whole_numbers(str(kind), seed) for seed, kind in enumerate(before.in_types)]
    for left, right in zip(simulate(before, args), simulate(after, args), strict=True):
        assert_array_equal(left, right)


def test_rows_flow_through_dots_and_reductions_of_other_dims() -> None:
    module = local(TEXT)
    found = chain(module, 0, 2)
    assert set(found.loops) == {node for node in module.graph.nodes if node.operands}
    assert len(collectives(module)) == 2


def test_a_near_chain_ends_at_dots() -> None:
    module = local(TEXT)
    first = collectives(module)[0]
    found = Flow(module.graph, set(module.graph.nodes)).grow([Seed(first, 0)], 2, through_dots=False)
    assert Counter(node.op for node in found.loops) == {"all_reduce": 1, "dot_general": 2, "add": 2}


@pytest.mark.parametrize("through_dots", [True, False], ids=["through dots", "near"])
@pytest.mark.parametrize(("dim", "count"), [(0, 2), (0, 4), (0, 8), (1, 2), (1, 4)])
def test_chunks_compute_the_same_to_the_last_bit(dim: int, count: int, through_dots: bool) -> None:
    module = local(TEXT)
    after = chunked(module, dim, count, through_dots=through_dots)
    assert _ops(after)["all_reduce"] == 2 * count
    assert not [fault for node in after.graph.nodes for fault in verify_node(node)]
    _same_numbers(module, after)
    _same_numbers(module, fuse(after))
    _same_numbers(module, fuse(parse_text(print_text(after))))


def test_what_is_read_whole_is_joined_once_and_what_comes_in_whole_is_cut() -> None:
    after = chunked(local(TEXT), 0, 4)
    assert _ops(after)["slice"] == 4  # of the argument; weights are read whole
    assert _ops(after)["concatenate"] == 1  # for the result


def test_dims_that_cannot_be_cut_evenly_and_rows_that_a_collective_moves_make_no_chain() -> None:
    module = local(TEXT)
    assert not chain(module, 0, 3).loops
    gathered = local(TEXT.replace("[{}, {}]>}, %u0", '[{"tp"}, {}]>}, %u0'))
    gather, *_ = (node for node in collectives(gathered) if node.op == "all_gather")
    flow = Flow(gathered.graph, set(gathered.graph.nodes))
    assert flow.loop(gather, gather.attrs.dim, 2) is None
    assert flow.loop(gather, 1 - gather.attrs.dim, 2) is not None


def test_the_reason_of_a_collective_tells_of_its_chunks() -> None:
    why = {node.notes.why for node in collectives(chunked(local(TEXT), 0, 4))}
    assert why
    assert all(text.endswith("[4 chunks along dim 0, which overlap with computing]") for text in why)


def _in_random_chunks(module: Module, rng: random.Random) -> tuple[Module, int]:
    """The program with every collective that can be cut in chunks, with as many others as its chain takes along; and how many chains."""
    flat, chains = loop_unroll(module), 0
    left = set(flat.graph.nodes)
    for node in collectives(flat):
        flow = Flow(flat.graph, left)
        shapes = [(dim, count) for dim in range(node.result.type.rank) for count in (2, 3, 4)]
        able = [(dim, count) for dim, count in shapes if flow.loop(node, dim, count)]
        if able:
            dim, count = rng.choice(able)
            found = flow.grow([Seed(node, dim)], count, through_dots=rng.random() < 0.7)
            left -= set(found.loops)
            flat, chains = replace(flat, graph=in_chunks(flat.graph, found)), chains + 1
    return flat, chains


@pytest.mark.parametrize("group", trials(2))
def test_random_programs_in_chunks_keep_law_one(group: int) -> None:
    chains = 0
    for seed in range(group * 30, group * 30 + 30):
        module = program_of(seed)
        if len(module.meshes) > 1:
            continue
        found: list[int] = []
        result = check(module, pipeline=partial(_fused_in_chunks, seed, found))
        assert result.ok, f"seed {seed}: {result.faults}"
        chains += sum(found)
    assert chains >= 5


def _fused_in_chunks(seed: int, found: list[int], module: Module) -> Module:
    """The program on its way to kernels; `found` gets the number of its chains."""
    local = run_stages(module, options_of(seed), Timing(), "partition")["partition"]
    after, chains = _in_random_chunks(local, random.Random(seed))
    found.append(chains)
    return fuse(after)
