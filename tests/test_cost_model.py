"""The cost model. Each field has a unit, a meaning, a source and code that reads it. The recorded sensitivities are
current, and fields change decisions.
"""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshgen import api
from meshgen.benchmarks.suites import SUITES
from meshgen.cost_model.fields import MATTERS, STEADY, entries
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Annotation, Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.reports.cost_model import cost_model_rows, value_text
from meshgen.sharding.optimizations import collective_combine
from meshgen.sharding.propagate import propagate
from meshgen.sharding.propagation import choices, states
from meshgen.spec import P
from tests.cost_models import use
from tests.programs import mlp
from tests.sharding.local_programs import Program
from tests.sources import FILES, PACKAGE, ROOT, nodes_of, refuse

ENTRIES = list(entries(DEFAULT))
RESULTS = ROOT / "bench" / "results" / "sensitivity.jsonl"


def test_every_cost_model_field_has_unit_meaning_and_source() -> None:
    refuse([entry.name for entry in ENTRIES if not (entry.unit and entry.meaning and entry.source)])
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES) > 80


def test_cost_model_sources_name_existing_commands() -> None:
    commands = {command for entry in ENTRIES for command in re.findall(r"python -m bench(?:\.(\w+))?", entry.source)}
    refuse(
        [
            f"bench/{name}.py is not there"
            for name in commands
            if not (ROOT / "bench" / f"{name or '__main__'}.py").exists()
        ]
    )
    suites = {command for entry in ENTRIES for command in re.findall(r"meshgen bench (\w+)", entry.source)}
    assert suites and suites <= set(SUITES)


def fields_read(path: Path) -> Iterator[str]:
    """Yield the fields of `DEFAULT` that a file reads, directly or through a named group."""
    groups: dict[str, str] = {}
    for node in nodes_of(path, ast.Assign):
        pairs = zip(*(_items(side) for side in (node.targets[0], node.value)), strict=False)
        groups |= {_dotted(name): group for name, value in pairs if (group := _group(value, groups))}
    for node in nodes_of(path, ast.Attribute):
        if group := _group(node.value, groups):
            yield f"{group}.{node.attr}"


def _items(side: ast.expr) -> list[ast.expr]:
    return side.elts if isinstance(side, ast.Tuple) else [side]


def _group(value: ast.expr, groups: dict[str, str]) -> str:
    name = _dotted(value)
    if name.startswith("DEFAULT.") and name.count(".") == 1:
        return name.removeprefix("DEFAULT.")
    return groups.get(name, "") if name else ""


def _dotted(value: ast.expr) -> str:
    """Return `a.b` for attributes of a name, or "" for other expressions."""
    if isinstance(value, ast.Attribute):
        inner = _dotted(value.value)
        return f"{inner}.{value.attr}" if inner else ""
    return value.id if isinstance(value, ast.Name) else ""


def test_every_cost_model_field_is_read() -> None:
    readers = [path for path in FILES if not path.is_relative_to(PACKAGE / "cost_model")]
    read = {name for path in readers for name in fields_read(path)}
    names = [".".join(entry.name.split(".")[:2]) for entry in ENTRIES]
    refuse([f"{name} is read nowhere" for name in names if name not in read])
    refuse([f"{name} is no field" for name in sorted(read - {*names})])


def test_every_device_field_is_read_by_kernel_code() -> None:
    readers = [
        path
        for path in FILES
        if any(path.is_relative_to(PACKAGE / part) for part in ("codegen", "kernels", "sharding"))
    ]
    named = {node.attr for path in readers for node in nodes_of(path, ast.Attribute)}
    fields = {entry.name.split(".")[3] for entry in ENTRIES if entry.name.startswith("kernels.devices.")}
    assert fields and fields <= named


def measured() -> dict[str, list[list[str]]]:
    """Return, for each field and each other value of it, the programs whose plans change."""
    changed_plans: dict[str, list[list[str]]] = {}
    for record in map(json.loads, RESULTS.read_text().splitlines()):
        changed_plans.setdefault(record["field"], []).append(record["changed"])
    return changed_plans


def test_sensitivity_of_chosen_values_matches_measurement() -> None:
    """If a field is not measured, run `python -m bench.sensitivity` for it."""
    changed_plans = measured()
    chosen = [entry for entry in ENTRIES if entry.source in (STEADY, MATTERS)]
    refuse([f"{entry.name} is not measured" for entry in chosen if entry.name not in changed_plans])
    wrong = [entry for entry in chosen if (entry.source == MATTERS) != any(changed_plans[entry.name])]
    refuse(
        [
            f"{entry.name}: {sum(map(len, changed_plans[entry.name]))} plans change, but it says '{entry.source}'"
            for entry in wrong
        ]
    )


def test_sensitivity_records_have_current_values() -> None:
    values = {entry.name: entry.value for entry in ENTRIES}
    for record in map(json.loads, RESULTS.read_text().splitlines()):
        value = values[record["field"]]
        assert record["value"] == (list(value) if isinstance(value, tuple) else value), record["field"]


def test_chunk_gain_equals_step_time_tolerance() -> None:
    assert 1 + DEFAULT.chunks.gain == pytest.approx(DEFAULT.scheduling.same_step)


@pytest.mark.parametrize(
    "value, text",
    [
        (3.7e11, "3.7e+11"),
        (1 + 1e-8, "1 + 1e-08"),
        ((2, 4), "2, 4"),
        ({"f32": 2e12}, "f32 2e+12"),
        (0.97, "0.97"),
        (1 << 20, "1,048,576"),
        (1, "1"),
    ],
)
def test_cost_model_values_are_printed_in_full(value: object, text: str) -> None:
    assert value_text(value) == text


def test_report_has_a_collapsed_cost_model_table(tmp_path: Path) -> None:
    api.plan(mlp(), target="cpu").report(tmp_path / "mlp.html")
    folded = (tmp_path / "mlp.html").read_text().partition("<details><summary>Cost model</summary>")[2]
    cells = [html.unescape(cell) for cell in re.findall(r"<td>([^<]*)</td>", folded)]
    assert cells == [cell for row in cost_model_rows() for cell in row] and len(cells) == 5 * len(ENTRIES)


def test_cost_model_fields_are_replaced_by_name() -> None:
    changed = DEFAULT.with_values({"links.peer_seconds": 1.0, "search.chain": 3})
    assert (changed.links.peer_seconds, changed.search.chain) == (1.0, 3)
    differing = [(e, f) for e, f in zip(ENTRIES, entries(changed), strict=True) if e != f]
    assert [before.name for before, _ in differing] == ["links.peer_seconds", "search.chain"]


# ---- decisions of fields


def hinted() -> Module:
    """Return a program of a tanh and a negation. Operand and result are split by rows; a hint on the value in between
    prefers a split by columns.
    """
    tensor_type = TensorType((64, 64), "f32")
    graph = Graph("main", [Value(tensor_type, "x")])
    hint = {"sharding": P(None, "x"), "required": False}
    annotated = graph.add(
        "annotate", [graph.add("tanh", [graph.inputs[0]], [tensor_type]).result], [tensor_type], hint
    ).result
    graph.outputs = [graph.add("negate", [annotated], [tensor_type]).result]
    rows = Annotation(P("x", None))
    return Module(make_mesh({"x": 4}), graph, in_annotations=[rows], out_annotations=[rows])


@pytest.mark.parametrize("seconds, expected", [(DEFAULT.propagation.hint_seconds, "[{}, {x}]"), (1e-9, "[{x}, {}]")])
def test_hint_is_kept_if_it_costs_less_than_hint_seconds(
    seconds: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To follow the hint, two all_to_alls of 3 KB are needed, which cost 17 ns."""
    use(monkeypatch, {"propagation.hint_seconds": seconds}, choices)
    assert str(propagate(hinted()).graph.nodes[1].sharding.results[0]) == expected  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("share, messages", [(DEFAULT.messages.share, 1), (1e-6, 2)])
def test_small_collectives_are_combined_if_copies_are_cheap(
    share: float, messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"messages.share": share}, collective_combine)
    program = Program(x=4)
    partials = [program.input("f32[8]", P(partial={"x": "sum"})) for _ in range(2)]
    sums = [program.add("all_reduce", [partial], "f32[8]", axes=("x",), kind="sum") for partial in partials]
    after = collective_combine.collective_combine(program.local(*sums))
    assert [node.op for node in after.graph.nodes].count("all_reduce") == messages


def test_relayout_of_argument_costs_its_cost_model_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    link = states.Link.of(make_mesh({"x": 4}), "x")
    usual, plain = (link.seconds(0, 1, 1e6, is_argument=placed) for placed in (True, False))
    use(monkeypatch, {"propagation.relayout_argument": 1.0}, states)
    assert usual > 5 * plain and link.seconds(0, 1, 1e6, is_argument=True) == plain
