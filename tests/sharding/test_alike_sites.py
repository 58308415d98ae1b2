"""Tables shared by equal sites lead to the same shardings as tables computed for each site."""

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


def propagated_text(module: Module) -> str:
    """Return the text at stage propagate, with every sharding and its reasons."""
    return print_text(run_stages(module, Options("cpu"), Timing(), "propagate")["propagate"])


def without_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patch `Kinds` so that no two sites count as equal."""
    numbers, of = itertools.count(), sites.Kinds.of

    def alone(kinds: sites.Kinds, node: Node, *, is_plain: bool) -> tuple[Rule, int]:
        kinds.rules.clear()
        return of(kinds, node, is_plain=is_plain)[0], next(numbers)

    monkeypatch.setattr(sites.Kinds, "of", alone)


@pytest.mark.parametrize("text", [EXAMPLE.read_text(), stack(2)], ids=["block", "stack"])
def test_sharing_between_layers_keeps_shardings(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = propagated_text(parse_text(text))
    without_sharing(monkeypatch)
    assert propagated_text(parse_text(text)) == shared


@pytest.mark.parametrize("seed", [seed for seed in range(60) if seed % 10 != 3])
def test_sharing_between_sites_keeps_shardings_of_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = print_text(program_of(seed))
    shared = propagated_text(parse_text(text))
    without_sharing(monkeypatch)
    assert propagated_text(parse_text(text)) == shared


def test_sites_of_equal_layers_share_kind() -> None:
    module = parse_text(stack(2))
    parts = sites.AxisParts.of(module.mesh, module.mesh.names)
    layer_sites = sites.sites_of(module, parts)
    assert len({site.like for site in layer_sites}) < len(layer_sites) / 2
