"""Test that no pass makes a step longer, except those in `bench.passes.LONGER`.

`python -m bench.passes` measures more programs.
"""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from bench.passes import LONGER, Gain, gains
from meshgen.passes import PASSES
from tests.sources import ROOT

FOLDERS = {"examples": ROOT / "examples", "data": ROOT / "tests" / "data", "gains": ROOT / "tests" / "passes" / "gains"}
FILES = {path.stem: path for folder in FOLDERS.values() for path in folder.rglob("*.mlir")}
PROGRAMS = (
    "transformer_block",
    # models
    "attn_tp",
    "batchnorm_dp",
    "block_dp_tp",
    "conv_halo",
    "decode_heads",
    "layernorm_sharded",
    "llama_forward",
    "mixtral_forward",
    "mlp_train_dp",
    "moe_ep_nohint",
    "resnet_forward",
    "xent_vocab_onehot",
    # programs with collectives written by users
    "b17_partial_sub_scatter",
    "i08b_chain_kinds",
    "i09_gather_slice_other_dim",
    # programs written for one pass, to test the others: loops, uneven slices, fused projections
    "all-reduce-reassociate",
    "collective-outermost-dim",
    "concatenate-sink",
    "fetch-drop-local-rows",
    "loop-unroll",
    "slice-into-dot",
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_passes_do_not_lengthen_the_step(program: str) -> None:
    longer = {name for name, gain in gains(FILES[program], program, PASSES) if gain.is_longer}
    assert longer == {name for name, longer_program in LONGER if longer_program == program}


def test_listed_exceptions_name_existing_passes_and_programs() -> None:
    assert {name for name, _ in LONGER} <= set(PASSES)
    assert {program for _, program in LONGER} <= FILES.keys()


def test_group_call_saves_the_memory_of_a_packed_copy() -> None:
    """Check that the pass lengthens the step of `mlp_train_dp` but reduces its memory."""
    (gain,) = (gain for _, gain in gains(FILES["mlp_train_dp"], "mlp_train_dp", ["concatenate-to-group-call"]))
    assert gain.is_longer and gain.memory is not None and gain.memory > 4 / 3


@pytest.mark.parametrize("group", ["given", "gains"])
def test_recorded_figures_name_existing_passes_and_programs(group: str) -> None:
    """Check the figures that `python -m bench.passes` writes and from which docs/passes.md is generated."""
    recorded = json.loads((ROOT / "bench" / "results" / "passes.json").read_text())[group]
    assert recorded["passes"] and recorded["passes"].keys() <= PASSES.keys()
    assert recorded.get("changed", {}).keys() <= PASSES.keys()
    figures = [gain for measured_gains in recorded["passes"].values() for gain in measured_gains]
    assert all(gain.keys() == {field.name for field in fields(Gain)} for gain in figures)
    named = {gain["program"].partition("/")[::2] for gain in figures}
    assert [name for folder, name in named if folder in FOLDERS and not (FOLDERS[folder] / name).exists()] == []
