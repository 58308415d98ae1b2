"""The cost model: each field says its unit and source and is read, what is measured of it is current, and it decides."""

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


def test_every_field_has_a_unit_a_meaning_and_a_source() -> None:
    refuse([each.name for each in ENTRIES if not (each.unit and each.meaning and each.source)])
    assert len({each.name for each in ENTRIES}) == len(ENTRIES) > 80


def test_sources_name_commands_that_exist() -> None:
    commands = {found for each in ENTRIES for found in re.findall(r"python -m bench(?:\.(\w+))?", each.source)}
    refuse(
        [
            f"bench/{name}.py is not there"
            for name in commands
            if not (ROOT / "bench" / f"{name or '__main__'}.py").exists()
        ]
    )
    suites = {found for each in ENTRIES for found in re.findall(r"meshgen bench (\w+)", each.source)}
    assert suites and suites <= set(SUITES)


def fields_read(path: Path) -> Iterator[str]:
    """The fields that a file reads, of `DEFAULT` or of a group of it that it gives a name."""
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
    """`a.b` for attributes of a name; empty for other expressions."""
    if isinstance(value, ast.Attribute):
        inner = _dotted(value.value)
        return f"{inner}.{value.attr}" if inner else ""
    return value.id if isinstance(value, ast.Name) else ""


def test_every_field_is_read() -> None:
    readers = [path for path in FILES if not path.is_relative_to(PACKAGE / "cost_model")]
    read = {name for path in readers for name in fields_read(path)}
    names = [".".join(each.name.split(".")[:2]) for each in ENTRIES]
    refuse([f"{name} is read nowhere" for name in names if name not in read])
    refuse([f"{name} is no field" for name in sorted(read - {*names})])


def test_devices_say_what_kernels_take_on_them() -> None:
    readers = [
        path
        for path in FILES
        if any(path.is_relative_to(PACKAGE / part) for part in ("codegen", "kernels", "sharding"))
    ]
    named = {node.attr for path in readers for node in nodes_of(path, ast.Attribute)}
    fields = {each.name.split(".")[3] for each in ENTRIES if each.name.startswith("kernels.devices.")}
    assert fields and fields <= named


def measured() -> dict[str, list[list[str]]]:
    """For each field, the programs whose plans other values change, by value."""
    found: dict[str, list[list[str]]] = {}
    for record in map(json.loads, RESULTS.read_text().splitlines()):
        found.setdefault(record["field"], []).append(record["changed"])
    return found


def test_what_is_said_of_chosen_values_was_measured() -> None:
    """`python -m bench.sensitivity` has been run with every field that has a number."""
    found = measured()
    chosen = [each for each in ENTRIES if each.source in (STEADY, MATTERS)]
    refuse([f"{each.name} is not measured" for each in chosen if each.name not in found])
    wrong = [each for each in chosen if (each.source == MATTERS) != any(found[each.name])]
    refuse(
        [f"{each.name}: {sum(map(len, found[each.name]))} plans change, but it says '{each.source}'" for each in wrong]
    )


def test_measurements_are_of_the_values_that_are() -> None:
    values = {each.name: each.value for each in ENTRIES}
    for record in map(json.loads, RESULTS.read_text().splitlines()):
        value = values[record["field"]]
        assert record["value"] == (list(value) if isinstance(value, tuple) else value), record["field"]


def test_chunks_must_save_what_steps_differ_by() -> None:
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
def test_values_are_printed_in_full(value: object, text: str) -> None:
    assert value_text(value) == text


def test_the_report_has_the_cost_model_folded(tmp_path: Path) -> None:
    api.plan(mlp(), target="cpu").report(tmp_path / "mlp.html")
    folded = (tmp_path / "mlp.html").read_text().partition("<details><summary>Cost model</summary>")[2]
    cells = [html.unescape(cell) for cell in re.findall(r"<td>([^<]*)</td>", folded)]
    assert cells == [cell for row in cost_model_rows() for cell in row] and len(cells) == 5 * len(ENTRIES)


def test_a_group_of_fields_is_replaced_by_name() -> None:
    changed = DEFAULT.with_values({"links.peer_seconds": 1.0, "search.chain": 3})
    assert (changed.links.peer_seconds, changed.search.chain) == (1.0, 3)
    others = [(e, f) for e, f in zip(ENTRIES, entries(changed), strict=True) if e != f]
    assert [before.name for before, _ in others] == ["links.peer_seconds", "search.chain"]


# ---- fields decide


def hinted() -> Module:
    """tanh(x) of rows that lie split and are wanted so; a hint says columns in between."""
    kind = TensorType((64, 64), "f32")
    graph = Graph("main", [Value(kind, "x")])
    hint = {"sharding": P(None, "x"), "required": False}
    said = graph.add("annotate", [graph.add("tanh", [graph.inputs[0]], [kind]).result], [kind], hint).result
    graph.outputs = [graph.add("negate", [said], [kind]).result]
    rows = Annotation(P("x", None))
    return Module(make_mesh({"x": 4}), graph, in_annotations=[rows], out_annotations=[rows])


@pytest.mark.parametrize("seconds, lies", [(DEFAULT.propagation.hint_seconds, "[{}, {x}]"), (1e-9, "[{x}, {}]")])
def test_a_hint_is_kept_for_what_it_is_worth(seconds: float, lies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two exchanges of 3 KB take 17 ns."""
    use(monkeypatch, {"propagation.hint_seconds": seconds}, choices)
    assert str(propagate(hinted()).graph.nodes[1].sharding.results[0]) == lies  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("share, messages", [(DEFAULT.messages.share, 1), (1e-6, 2)])
def test_small_collectives_are_joined_where_copies_take_less_than_a_share_of_the_latency(
    share: float, messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"messages.share": share}, collective_combine)
    program = Program(x=4)
    parts = [program.input("f32[8]", P(partial={"x": "sum"})) for _ in range(2)]
    sums = [program.add("all_reduce", [part], "f32[8]", axes=("x",), kind="sum") for part in parts]
    after = collective_combine.collective_combine(program.local(*sums))
    assert [node.op for node in after.graph.nodes].count("all_reduce") == messages


def test_relayout_of_a_placed_argument_costs_as_much_as_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    link = states.Link.of(make_mesh({"x": 4}), "x")
    usual, plain = (link.seconds(0, 1, 1e6, is_argument=placed) for placed in (True, False))
    use(monkeypatch, {"propagation.relayout_argument": 1.0}, states)
    assert usual > 5 * plain and link.seconds(0, 1, 1e6, is_argument=True) == plain
