"""What sites that are alike share is what each would come to by itself."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from meshgen.benchmarks.stack import stack
from meshgen.ir.graph import Module, Node
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.rules.rule import Rule
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.propagation import sites
from meshgen.testing.random_programs import program_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "transformer_block.mlir"


def decided(module: Module) -> str:
    """The text at stage propagate: every sharding, with its reasons."""
    return print_text(run_stages(module, Options("cpu"), Timing(), "propagate")["propagate"])


def without_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every site is like no other from now on."""
    numbers, of = itertools.count(), sites.Kinds.of

    def alone(kinds: sites.Kinds, node: Node, *, is_plain: bool) -> tuple[Rule, int]:
        kinds.rules.clear()
        return of(kinds, node, is_plain=is_plain)[0], next(numbers)

    monkeypatch.setattr(sites.Kinds, "of", alone)


@pytest.mark.parametrize("text", [EXAMPLE.read_text(), stack(2)], ids=["block", "stack"])
def test_layers_are_decided_as_one_by_one(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = decided(parse_text(text))
    without_sharing(monkeypatch)
    assert decided(parse_text(text)) == shared


@pytest.mark.parametrize("seed", [seed for seed in range(60) if seed % 10 != 3])
def test_random_programs_are_decided_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = print_text(program_of(seed))
    shared = decided(parse_text(text))
    without_sharing(monkeypatch)
    assert decided(parse_text(text)) == shared


def test_sites_of_equal_layers_are_alike() -> None:
    module = parse_text(stack(2))
    parts = sites.AxisParts.of(module.mesh, module.mesh.names)
    found = sites.sites_of(module, parts)
    assert len({site.like for site in found}) < len(found) / 2
