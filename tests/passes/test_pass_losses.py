"""No pass makes the step of a program longer, but those that `bench.passes.LONGER` lists with a reason; `python -m bench.passes` measures more programs."""

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
    # collectives that a user wrote
    "b17_partial_sub_scatter",
    "i08b_chain_kinds",
    "i09_gather_slice_other_dim",
    # programs that were written for one pass, for the others: loops, uneven slices, fused projections
    "all-reduce-reassociate",
    "collective-outermost-dim",
    "concatenate-sink",
    "fetch-drop-local-rows",
    "loop-unroll",
    "slice-into-dot",
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_pass_makes_the_step_longer(program: str) -> None:
    longer = {name for name, gain in gains(FILES[program], program, PASSES) if gain.is_longer}
    assert longer == {name for name, longer_program in LONGER if longer_program == program}


def test_listed_passes_and_programs_exist() -> None:
    assert {name for name, _ in LONGER} <= set(PASSES)
    assert {program for _, program in LONGER} <= FILES.keys()


def test_group_call_saves_the_memory_of_a_packed_copy() -> None:
    """The step of `mlp_train_dp` is longer with the pass, which is accepted for less memory."""
    (gain,) = (gain for _, gain in gains(FILES["mlp_train_dp"], "mlp_train_dp", ["concatenate-to-group-call"]))
    assert gain.is_longer and gain.memory is not None and gain.memory > 4 / 3


@pytest.mark.parametrize("group", ["given", "gains"])
def test_figures_name_passes_programs_and_fields_that_exist(group: str) -> None:
    """`python -m bench.passes` makes the figures again, of which docs/passes.md is made."""
    found = json.loads((ROOT / "bench" / "results" / "passes.json").read_text())[group]
    assert found["passes"] and found["passes"].keys() <= PASSES.keys()
    assert found.get("changed", {}).keys() <= PASSES.keys()
    figures = [gain for measured_gains in found["passes"].values() for gain in measured_gains]
    assert all(gain.keys() == {field.name for field in fields(Gain)} for gain in figures)
    named = {gain["program"].partition("/")[::2] for gain in figures}
    assert [name for folder, name in named if folder in FOLDERS and not (FOLDERS[folder] / name).exists()] == []
