"""Tests of several annotations of one value: it is resharded in their order, as upstream's partition does, or refused."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.api import plan
from meshgen.errors import ProgramError
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.spec import P
from meshgen.testing.oracle import check

ROWS, COLUMNS, WHOLE = "split_axes = [[0]]", "split_axes = [[], [0]]", "split_axes = [[]]"
WIDE, WIDER = f"{ROWS} halo_sizes = [1, 2]", f"{ROWS} halo_sizes = [2, 2]"


def program(*steps: str, between: str = "") -> str:
    """Return a program that annotates %v0 with each of `steps` in turn.

    A step is `SHARDING` or `SHARDING for users`. The line `between` follows the first annotation.
    """
    lines: list[str] = []
    for number, step in enumerate(steps):
        sharding, _, users = step.partition(" for ")
        lines.append(f"%s{number} = shard.sharding @g {sharding} : !shard.sharding")
        flag = " annotate_for_users" if users else ""
        lines.append(f"%v{number + 1} = shard.shard %v{number} to %s{number}{flag} : tensor<12x6xi64>")
        lines += [between] if between and not number else []
    body = "\n  ".join(lines)
    return f"""shard.grid @g(shape = 4)
func.func @f(%v0: tensor<12x6xi64>) -> tensor<12x6xi64> {{
  {body}
  return %v{len(steps)} : tensor<12x6xi64>
}}"""


def moves(text: str) -> tuple[list[str], dict[str, Module]]:
    """Return the collectives of the materialized program, and the modules of all stages.

    Also checks that the text of each stage round-trips, and that the results are right.
    """
    module = parse_text(text)
    stages = run_stages(module, Options("cpu"), Timing(), "partition")
    for stage in stages.values():
        assert print_text(parse_text(print_text(stage))) == print_text(stage)
    result = check(module, pipeline=lambda _: stages["partition"])
    assert result.ok, result.faults
    return [node.op for node in stages["materialize"].graph.nodes if node.notes.why], stages


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((ROWS, f"{ROWS} for users", f"{WHOLE} for users"), ["all_gather"]),
        ((f"{ROWS} for users", f"{COLUMNS} for users"), ["all_slice", "all_to_all"]),
        ((ROWS, f"{COLUMNS} for users", f"{ROWS} for users"), ["all_to_all", "all_to_all"]),
        ((ROWS, WIDE), ["update_halo"]),
        ((ROWS, WIDE, f"{WIDE} for users"), ["update_halo"]),
        ((ROWS, WIDE, f"{WIDER} for users"), ["update_halo", "retile", "update_halo"]),
        ((f"{ROWS} for users", WIDE), ["all_slice", "update_halo"]),
    ],
)
def test_annotation_chain_reshards_step_by_step(steps: tuple[str, ...], expected: list[str]) -> None:
    """An argument takes its first annotation. If this one is only for users, an op precedes it."""
    if " for " in steps[0]:
        text = program(*steps).replace("%v0 to", "%n to", 1)
        text = text.replace(
            "  %s0 =", f"  {REPLICATED_COPY}\n  %n = stablehlo.negate %m : tensor<12x6xi64>\n  %s0 =", 1
        )
    else:
        text = program(*steps)
    assert moves(text)[0] == expected


REPLICATED_COPY = """%w = shard.sharding @g split_axes = [[]] : !shard.sharding
  %m = shard.shard %v0 to %w : tensor<12x6xi64>"""


def test_op_between_annotations_reads_the_first() -> None:
    text = program(ROWS, WIDE, between="%n = stablehlo.negate %v1 : tensor<12x6xi64>")
    _, stages = moves(text.replace("return %v2 : tensor<12x6xi64>", "return %n : tensor<12x6xi64>"))
    negate = next(node for node in stages["materialize"].graph.nodes if node.op == "negate")
    assert negate.operands[0].sharding == P("0", None)


def test_halo_annotation_adds_neighbor_rows() -> None:
    _, stages = moves(program(ROWS, WIDE))
    assert stages["partition"].graph.outputs[0].type.shape == (6, 6)
    x = np.arange(72).reshape(12, 6)
    np.testing.assert_array_equal(np.asarray(plan(program(ROWS, WIDE), target="cpu")(x)), x)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((ROWS, COLUMNS), "for its producer with [{}, {0}], but also with [{0}, {}]"),
        ((WIDE, ROWS), "for its producer with [{0}, {}], but also with [{0}, {}] halo [[1, 2], [0, 0]]"),
        ((COLUMNS, WIDE), "for its producer with [{0}, {}] halo [[1, 2], [0, 0]], but also with [{}, {0}]"),
        (
            (f"{ROWS} for users", COLUMNS),
            "for its producer with [{}, {0}], but an annotation for users, [{0}, {}], comes first",
        ),
    ],
)
def test_contradictory_annotation_chain_is_refused(steps: tuple[str, ...], message: str) -> None:
    with pytest.raises(ProgramError) as error:
        parse_text(program(*steps))
    (fault,) = error.value.diagnostics
    assert fault.code == "MG0205" and message in fault.message and fault.loc and fault.loc.line == 6
