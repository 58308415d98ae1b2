"""Chains of ops around collectives that run in chunks: how far they extend, and that the results do not change."""

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


def _assert_same_results(before: Module, after: Module) -> None:
    args = [whole_numbers(str(kind), seed) for seed, kind in enumerate(before.in_types)]
    for left, right in zip(simulate(before, args), simulate(after, args), strict=True):
        assert_array_equal(left, right)


def test_row_chain_extends_through_dots_and_reductions() -> None:
    module = local(TEXT)
    row_chain = chain(module, 0, 2)
    assert set(row_chain.loops) == {node for node in module.graph.nodes if node.operands}
    assert len(collectives(module)) == 2


def test_chain_without_dots_stops_at_dots() -> None:
    module = local(TEXT)
    first = collectives(module)[0]
    near_chain = Flow(module.graph, set(module.graph.nodes)).grow([Seed(first, 0)], 2, through_dots=False)
    assert Counter(node.op for node in near_chain.loops) == {"all_reduce": 1, "dot_general": 2, "add": 2}


@pytest.mark.parametrize("through_dots", [True, False], ids=["through dots", "near"])
@pytest.mark.parametrize(("dim", "count"), [(0, 2), (0, 4), (0, 8), (1, 2), (1, 4)])
def test_chunks_compute_bitwise_equal_results(dim: int, count: int, through_dots: bool) -> None:
    module = local(TEXT)
    after = chunked(module, dim, count, through_dots=through_dots)
    assert _ops(after)["all_reduce"] == 2 * count
    assert not [fault for node in after.graph.nodes for fault in verify_node(node)]
    _assert_same_results(module, after)
    _assert_same_results(module, fuse(after))
    _assert_same_results(module, fuse(parse_text(print_text(after))))


def test_chunks_slice_arguments_and_concatenate_result_once() -> None:
    after = chunked(local(TEXT), 0, 4)
    assert _ops(after)["slice"] == 4  # each chunk slices the argument, but reads all weights
    assert _ops(after)["concatenate"] == 1  # joins the chunks of the result


def test_uneven_dims_and_gathered_dims_have_no_chain() -> None:
    module = local(TEXT)
    assert not chain(module, 0, 3).loops
    gathered = local(TEXT.replace("[{}, {}]>}, %u0", '[{"tp"}, {}]>}, %u0'))
    gather, *_ = (node for node in collectives(gathered) if node.op == "all_gather")
    flow = Flow(gathered.graph, set(gathered.graph.nodes))
    assert flow.loop(gather, gather.attrs.dim, 2) is None
    assert flow.loop(gather, 1 - gather.attrs.dim, 2) is not None


def test_collective_reason_mentions_chunks() -> None:
    why = {node.notes.why for node in collectives(chunked(local(TEXT), 0, 4))}
    assert why
    assert all(text.endswith("[4 chunks along dim 0, which overlap with computing]") for text in why)


def _in_random_chunks(module: Module, rng: random.Random) -> tuple[Module, int]:
    """Return the program with every divisible collective in chunks, each with a random chain, and the number of chains."""
    flat, chains = loop_unroll(module), 0
    unassigned = set(flat.graph.nodes)
    for node in collectives(flat):
        flow = Flow(flat.graph, unassigned)
        shapes = [(dim, count) for dim in range(node.result.type.rank) for count in (2, 3, 4)]
        valid_cuts = [(dim, count) for dim, count in shapes if flow.loop(node, dim, count)]
        if valid_cuts:
            dim, count = rng.choice(valid_cuts)
            random_chain = flow.grow([Seed(node, dim)], count, through_dots=rng.random() < 0.7)
            unassigned -= set(random_chain.loops)
            flat, chains = replace(flat, graph=in_chunks(flat.graph, random_chain)), chains + 1
    return flat, chains


@pytest.mark.parametrize("group", trials(2))
def test_random_programs_in_chunks_compute_correct_results(group: int) -> None:
    chains = 0
    for seed in range(group * 30, group * 30 + 30):
        module = program_of(seed)
        if len(module.meshes) > 1:
            continue
        chain_counts: list[int] = []
        result = check(module, pipeline=partial(_fused_in_chunks, seed, chain_counts))
        assert result.ok, f"seed {seed}: {result.faults}"
        chains += sum(chain_counts)
    assert chains >= 5


def _fused_in_chunks(seed: int, chain_counts: list[int], module: Module) -> Module:
    """Return the fused program in chunks, and append its number of chains to `chain_counts`."""
    local = run_stages(module, options_of(seed), Timing(), "partition")["partition"]
    after, chains = _in_random_chunks(local, random.Random(seed))
    chain_counts.append(chains)
    return fuse(after)
