"""Table rows repeated by layers are merged into one; rows that differ in a size or a word stay separate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.reports.merged_reasons import joined, skeleton, without_repeated_clauses

REASON = "dot_general '{0}' (model.py:{1} in layer_{2}/mlp) gives [{{}}, {{}}] partial sum(tp); dot_general '{0}': tp splits loop c ({3}, summed) from required annotation [{{tp}}, {{}}] of input %params.h.{2}.w{4}"


def test_reasons_repeated_by_layers_are_merged() -> None:
    reasons = [REASON.format(39 * n, 11, n, 128, f"; {n} other choices would move more") for n in range(3)]
    assert len({*map(skeleton, reasons)}) == 1
    assert joined(reasons) == REASON.format("*", 11, "*", 128, "")
    assert joined(reasons[:1] * 2) == reasons[0]


@pytest.mark.parametrize("other", [(1, 11, 0, 64, ""), (1, 11, 0, 128, " of @other")])
def test_reasons_with_different_sizes_or_words_stay_separate(other: tuple[Any, ...]) -> None:
    assert skeleton(REASON.format(1, 11, 0, 128, "")) != skeleton(REASON.format(*other))


def layers(count: int) -> Any:
    def model(x: Any, ws: list[Any]) -> Any:
        for pair in ws:
            x = mg.tanh(x @ pair["up"]) @ pair["down"] + x
        return x

    types = [{"up": "f32[64,256]", "down": "f32[256,64]"}] * count
    specs = {"*.up": mg.P(None, "tp"), "*.down": mg.P("tp"), "x": mg.P(None, None)}
    return mg.compile(model, {"tp": 4}, args=["f32[16,64]", types], in_specs=specs, target="cpu")


def test_collective_table_does_not_grow_with_layers() -> None:
    shallow, deep = layers(3), layers(6)
    assert len(deep.comms) - len(shallow.comms) == 3
    rows = [len(str(executable.comms).splitlines()) for executable in (shallow, deep)]
    assert rows[0] == rows[1]
    assert "ws.*.down" in str(deep.comms).replace("\n", " ") and f"({len(deep.comms)})" in str(deep.comms)
    assert np.isclose(deep.comms.ring_bytes, 2 * shallow.comms.ring_bytes)


def test_combined_message_states_each_sentence_once() -> None:
    heads = [f"slice (m.py:{line}) needs rows of other tiles along dim 2" for line in (3, 4, 5)]
    ends = "dp splits loop a (8) from required annotation [{dp}] of input %x; tp splits loop c (768) from hint [{tp}] of input %w"
    note = " [3 fetches in one message: its busiest device moves less]"
    assert (
        without_repeated_clauses("; and ".join(f"{head}; {ends}" for head in heads) + note)
        == f"3 x {heads[0]}; {ends}{note}"
    )
    other = "add 'h' (m.py:9) needs [{dp}, {}]"
    assert without_repeated_clauses(f"{heads[0]}; {ends}; and {other}; {ends}") == f"{heads[0]} and {other}; {ends}"


@pytest.mark.parametrize("reason", ["one; two [note]", "", "a needs [{x}, {}]; x splits dim 0 from [{x}, {}]"])
def test_single_reason_is_unchanged(reason: str) -> None:
    assert without_repeated_clauses(reason) == reason
