"""Plan a program again with additional annotations, and compare both plans (`explain --what-if`)."""

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
from meshgen.reports.comms import Collective, Comms, collective_records, total_of
from meshgen.reports.interface import Compiled
from meshgen.reports.merged_reasons import joined, skeleton
from meshgen.reports.tables import Table, bytes_text, figure_text, table_of
from meshgen.reports.value_reasons import similar_names_hint
from meshgen.sizes.program import input_names
from meshgen.spec import Sharding, fit

FIGURES = (
    "ring_bytes", "peak_memory_bytes", "flops_per_device", "redundant_flops_per_device", "step_seconds", "exposed_seconds",
)  # fmt: skip


def annotated_with(module: Module, shardings: Mapping[str, Sharding]) -> Module:
    """Return the program with required annotations on the named values, in place of their present annotations.

    Args:
        shardings: the shardings, keyed by value name (`%h`), input name, or source line of the producing op.
    Raises:
        UsageError: MG0001 for an unknown value.
    """
    if module.stage != "import":
        text = f"the program entered at stage '{module.stage}', after its shardings were chosen"
        raise UsageError(Diagnostic("MG0001", text, hint="ask about the program as it was before propagation"))
    for name, sharding in shardings.items():
        module = _with_annotation(module, name, sharding)
    return module


def _with_annotation(module: Module, name: str, sharding: Sharding) -> Module:
    input_index, value = named_value(module.graph, name)
    sharding = fit(sharding, value.type.rank)
    if input_index is not None:
        annotations = [*module.in_annotations, *[None] * (len(module.graph.inputs) - len(module.in_annotations))]
        annotations[input_index] = Annotation(sharding, True, (False,) * sharding.rank, value.loc)
        return replace(module, in_annotations=annotations)
    return annotated_values(module, {value: sharding})


def annotated_values(module: Module, shardings: Mapping[Value, Sharding]) -> Module:
    """Return the program with required annotations on the values in `shardings`, which are results of nodes."""
    return replace(module, graph=_insert(module.graph, shardings))


def values_by_id(graph: Graph) -> dict[int, Value]:
    """Map ids, which are constant over all stages, to the values that a graph's nodes and their regions produce."""
    return {value.id: value for value in _produced_values(graph)}


def named_value(graph: Graph, name: str) -> tuple[int | None, Value]:
    """Find a value by name or source line. Returns (input index, value). The index is None if a node produces the
    value.

    Raises:
        UsageError: MG0001 if the name matches no value or several.
    """
    bare_name = name.lstrip("%")
    inputs = input_names(graph)
    line = whole_number(name)
    if bare_name in inputs and line is None:
        index = inputs.index(bare_name)
        return index, graph.inputs[index]
    candidates = [value for value in _produced_values(graph) if value.name == bare_name]
    if not candidates and line is not None:
        candidates = [value for value in _produced_values(graph) if value.loc and value.loc.line == line]
    if len(candidates) == 1:
        return None, candidates[0]
    if candidates:
        if len({value.name for value in candidates}) > 1:
            hint = "annotate one by its name: " + ", ".join(f"%{value.name}" for value in candidates)
        else:
            hint = "annotate one by its line: " + ", ".join(str(value.loc.line) for value in candidates if value.loc)
        raise UsageError(Diagnostic("MG0001", f"'{name}' is {len(candidates)} values", hint=hint))
    names = [*inputs, *(v.name for v in _produced_values(graph) if v.name)]
    raise UsageError(Diagnostic("MG0001", f"unknown value '{name}'", hint=similar_names_hint(name, names)))


def _produced_values(graph: Graph) -> list[Value]:
    values: list[Value] = []
    for node in graph.nodes:
        values += node.results
        regions = program_regions(node)
        values += [value for region in regions[-1:] for value in region.inputs]
        values += [value for region in regions for value in _produced_values(region)]
    return values


def _insert(graph: Graph, shardings: Mapping[Value, Sharding]) -> Graph:
    """Insert annotations for the values in `shardings`: after the producing node, or at the start of the region with
    the input.
    """
    annotated: dict[Value, Value] = {}
    nodes = [_annotation(value, shardings[value], value.loc, annotated) for value in graph.inputs if value in shardings]
    for node in graph.nodes:
        operands = [annotated.get(v, v) for v in node.operands]
        regions = tuple(_insert(region, shardings) for region in node.regions)
        attrs, annotated_results = node.attrs, [value for value in node.results if value in shardings]
        if annotated_results and is_annotation(node):
            attrs = {**attrs, "sharding": shardings[annotated_results[0]], "required": True, "open_dims": ()}
        nodes.append(replace(node, operands=operands, regions=regions, attrs=attrs))
        if not is_annotation(node):
            nodes += [_annotation(value, shardings[value], node.loc, annotated) for value in annotated_results]
    return Graph(graph.name, graph.inputs, nodes, [annotated.get(v, v) for v in graph.outputs])


def _annotation(value: Value, sharding: Sharding, loc: Location | None, annotated: dict[Value, Value]) -> Node:
    """Return an annotation node for `value`, and map `value` to the node's result in `annotated`, for later uses."""
    # same id as `value`, because the user sees both as one value
    annotated[value] = Value(value.type, value.name, loc=value.loc, id=value.id)
    options = {"sharding": sharding, "required": True, "as_result": True, "open_dims": ()}
    return Node("annotate", [value], [annotated[value]], options, loc)


def comparison(before: Compiled, after: Compiled) -> list[tuple[str, Any, Any]]:
    """Return rows (figure, before, after): the count and bytes of each kind of collective, then totals."""
    kinds = sorted({row.kind for executable in (before, after) for row in executable.comms})
    rows: list[tuple[str, Any, Any]] = []
    for kind in kinds:
        rows.append((kind, before.comms.count(kind), after.comms.count(kind)))
        rows.append((f"{kind} bytes", _kind_bytes(before, kind), _kind_bytes(after, kind)))
    old, new = before.record(), after.record()
    return rows + [(figure, old[figure], new[figure]) for figure in FIGURES if old[figure] is not None]


def changed_record(vanish: Comms, appear: Comms) -> dict[str, Any]:
    """Return the vanished and the added collectives as a JSON-serializable dict."""
    return {"vanish": collective_records(vanish), "appear": collective_records(appear)}


def changed_collectives(before: Comms, after: Comms) -> tuple[Comms, Comms]:
    """Return the collectives that only the program `before` has, and those that only `after` has. Two collectives are
    equal if their operands, axes and source line are.
    """
    return _difference(before, after), _difference(after, before)


def _difference(rows: Comms, other_rows: Comms) -> Comms:
    unmatched = Counter(map(_comparison_key, other_rows))
    remaining: list[Collective] = []
    for row in rows:
        unmatched[_comparison_key(row)] -= 1
        remaining += [row] if unmatched[_comparison_key(row)] < 0 else []
    return Comms(tuple(remaining))


def _comparison_key(row: Collective) -> tuple[object, ...]:
    return row.kind, row.axes, row.peer, row.dtype, row.shape, row.reduction, row.source


def _kind_bytes(executable: Compiled, kind: str) -> int:
    return total_of(row for row in executable.comms if row.kind == kind).ring_bytes


def changes_text(vanish: Comms, appear: Comms) -> list[str]:
    """Return a line per vanished or added collective. The collectives of repeated layers share a line with their
    totals.
    """
    groups: dict[tuple[str, ...], list[Collective]] = {}
    for word, rows in (("vanishes", vanish), ("appears", appear)):
        for row in rows:
            groups.setdefault((word, row.kind, row.way, row.operand, skeleton(f"({row.source})")), []).append(row)
    return [_change_line(word, rows) for (word, *_), rows in groups.items()]


def _change_line(word: str, rows: Sequence[Collective]) -> str:
    first, total = rows[0], total_of(rows)
    subject = f"{f'{total.times} x ' if total.times > 1 else ''}{first.kind} {first.way} of {first.operand}"
    where = f", at {joined([row.source for row in rows])}" if first.source else ""
    return f"{word}: {subject}, {bytes_text(total.ring_bytes)}{where}"


def comparison_table(rows: list[tuple[str, Any, Any]], shardings: Mapping[str, Sharding]) -> Table:
    title = "If " + " and ".join(f"{name} were {sharding}" for name, sharding in shardings.items())
    table = [(figure, figure_text(figure, old), figure_text(figure, new)) for figure, old, new in rows]
    return table_of(title, ("", "before", "after"), table)
