"""What if a value were annotated: the program propagated again with the annotation, and both compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError
from meshgen.ir.graph import Annotation, Graph, Module, Node, Value
from meshgen.ir.predicates import is_annotation
from meshgen.ir.regions import program_regions
from meshgen.names import whole_number
from meshgen.reports.alike import joined, skeleton
from meshgen.reports.comms import Collective, Comms, collective_records, total_of
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import Table, bytes_text, figure_text, table_of
from meshgen.reports.values import near_names
from meshgen.sizes.program import input_names
from meshgen.spec import Sharding, fit

FIGURES = (
    "ring_bytes", "peak_memory_bytes", "flops_per_device", "redundant_flops_per_device", "step_seconds", "exposed_seconds",
)  # fmt: skip


def annotated_with(module: Module, shardings: Mapping[str, Sharding]) -> Module:
    """The program with required annotations on values: `%h`, an input's name, or the line of the op that makes it.

    Replaces an annotation that the value has. Raises UsageError (MG0001) for unknown values.
    """
    if module.stage != "import":
        text = f"the program entered at stage '{module.stage}', after its shardings were chosen"
        raise UsageError(Diagnostic("MG0001", text, hint="ask about the program as it was before propagation"))
    for name, sharding in shardings.items():
        module = _with_annotation(module, name, sharding)
    return module


def _with_annotation(module: Module, name: str, sharding: Sharding) -> Module:
    number, value = named_value(module.graph, name)
    sharding = fit(sharding, value.type.rank)
    if number is not None:
        found = [*module.in_annotations, *[None] * (len(module.graph.inputs) - len(module.in_annotations))]
        found[number] = Annotation(sharding, True, (False,) * sharding.rank, value.loc)
        return replace(module, in_annotations=found)
    return annotated_values(module, {value: sharding})


def annotated_values(module: Module, shardings: Mapping[Value, Sharding]) -> Module:
    """The program with required annotations on values that its nodes make."""
    return replace(module, graph=_insert(module.graph, shardings))


def values_by_id(graph: Graph) -> dict[int, Value]:
    """The values that nodes of a graph make, those of its regions too, by what is kept of them at all stages."""
    return {value.id: value for value in _made(graph)}


def named_value(graph: Graph, name: str) -> tuple[int | None, Value]:
    """The input's number, or None, and the value. Raises UsageError for none and for several."""
    plain = name.lstrip("%")
    inputs = input_names(graph)
    line = whole_number(name)
    if plain in inputs and line is None:
        number = inputs.index(plain)
        return number, graph.inputs[number]
    made = [value for value in _made(graph) if value.name == plain]
    if not made and line is not None:
        made = [value for value in _made(graph) if value.loc and value.loc.line == line]
    if len(made) == 1:
        return None, made[0]
    if made:
        if len({value.name for value in made}) > 1:
            hint = "annotate one by its name: " + ", ".join(f"%{value.name}" for value in made)
        else:
            hint = "annotate one by its line: " + ", ".join(str(value.loc.line) for value in made if value.loc)
        raise UsageError(Diagnostic("MG0001", f"'{name}' is {len(made)} values", hint=hint))
    names = [*inputs, *(v.name for v in _made(graph) if v.name)]
    raise UsageError(Diagnostic("MG0001", f"unknown value '{name}'", hint=near_names(name, names)))


def _made(graph: Graph) -> list[Value]:
    found: list[Value] = []
    for node in graph.nodes:
        found += node.results
        regions = program_regions(node)
        found += [value for region in regions[-1:] for value in region.inputs]
        found += [value for region in regions for value in _made(region)]
    return found


def _insert(graph: Graph, shardings: Mapping[Value, Sharding]) -> Graph:
    """The graph with an annotation after each node that makes such a value, or at the start of the region whose input it is."""
    put: dict[Value, Value] = {}
    nodes = [_annotation(value, shardings[value], value.loc, put) for value in graph.inputs if value in shardings]
    for node in graph.nodes:
        operands = [put.get(v, v) for v in node.operands]
        regions = tuple(_insert(region, shardings) for region in node.regions)
        attrs, found = node.attrs, [value for value in node.results if value in shardings]
        if found and is_annotation(node):
            attrs = {**attrs, "sharding": shardings[found[0]], "required": True, "open_dims": ()}
        nodes.append(replace(node, operands=operands, regions=regions, attrs=attrs))
        if not is_annotation(node):
            nodes += [_annotation(value, shardings[value], node.loc, put) for value in found]
    return Graph(graph.name, graph.inputs, nodes, [put.get(v, v) for v in graph.outputs])


def _annotation(value: Value, sharding: Sharding, loc: Location | None, put: dict[Value, Value]) -> Node:
    """An annotation of a value; `put` maps the value to its result, for later uses."""
    put[value] = Value(value.type, value.name, loc=value.loc, id=value.id)  # to the user it is the same value
    options = {"sharding": sharding, "required": True, "as_result": True, "open_dims": ()}
    return Node("annotate", [value], [put[value]], options, loc)


def comparison(before: Compiled, after: Compiled) -> list[tuple[str, Any, Any]]:
    """Rows of (figure, before, after): collectives and bytes of each kind, then totals."""
    kinds = sorted({row.kind for executable in (before, after) for row in executable.comms})
    rows: list[tuple[str, Any, Any]] = []
    for kind in kinds:
        rows.append((kind, before.comms.count(kind), after.comms.count(kind)))
        rows.append((f"{kind} bytes", _kind_bytes(before, kind), _kind_bytes(after, kind)))
    old, new = before.record(), after.record()
    return rows + [(figure, old[figure], new[figure]) for figure in FIGURES if old[figure] is not None]


def changed_record(vanish: Comms, appear: Comms) -> dict[str, Any]:
    """For `--json`: the collectives that vanish and those that appear."""
    return {"vanish": collective_records(vanish), "appear": collective_records(appear)}


def changed_collectives(before: Comms, after: Comms) -> tuple[Comms, Comms]:
    """The collectives that vanish, and those that appear: equal ones, by what they do, are in both programs."""
    return _without(before, after), _without(after, before)


def _without(rows: Comms, others: Comms) -> Comms:
    left = Counter(map(_meaning, others))
    found: list[Collective] = []
    for row in rows:
        left[_meaning(row)] -= 1
        found += [row] if left[_meaning(row)] < 0 else []
    return Comms(tuple(found))


def _meaning(row: Collective) -> tuple[object, ...]:
    return row.kind, row.axes, row.peer, row.dtype, row.shape, row.reduction, row.source


def _kind_bytes(executable: Compiled, kind: str) -> int:
    return total_of(row for row in executable.comms if row.kind == kind).ring_bytes


def changes_text(vanish: Comms, appear: Comms) -> list[str]:
    """A line per collective that vanishes or appears; those that layers repeat are one line with their sum."""
    alike: dict[tuple[str, ...], list[Collective]] = {}
    for word, rows in (("vanishes", vanish), ("appears", appear)):
        for row in rows:
            alike.setdefault((word, row.kind, row.way, row.operand, skeleton(f"({row.source})")), []).append(row)
    return [_change_line(word, rows) for (word, *_), rows in alike.items()]


def _change_line(word: str, rows: Sequence[Collective]) -> str:
    first, total = rows[0], total_of(rows)
    what = f"{f'{total.times} x ' if total.times > 1 else ''}{first.kind} {first.way} of {first.operand}"
    where = f", at {joined([row.source for row in rows])}" if first.source else ""
    return f"{word}: {what}, {bytes_text(total.ring_bytes)}{where}"


def comparison_table(rows: list[tuple[str, Any, Any]], shardings: Mapping[str, Sharding]) -> Table:
    title = "If " + " and ".join(f"{name} were {sharding}" for name, sharding in shardings.items())
    table = [(figure, figure_text(figure, old), figure_text(figure, new)) for figure, old, new in rows]
    return table_of(title, ("", "before", "after"), table)
