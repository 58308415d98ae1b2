"""Explain the sharding of each value, with a record per value of the propagated program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError, bracketed, location_text
from meshgen.ir.flatten_manual import is_open
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.op_names import WITH_PROGRAMS
from meshgen.ir.predicates import is_annotation, is_branching, is_loop, is_manual, is_transfer_recv, is_transfer_send
from meshgen.ir.regions import program_nodes
from meshgen.mesh import overlaps
from meshgen.names import nearest_names
from meshgen.notation import format_sharding
from meshgen.reports.annotations import unfollowed_values
from meshgen.reports.interface import Compiled
from meshgen.sharding.multi_mesh.chains import ReasonsAcross
from meshgen.sharding.propagate import decisions_of
from meshgen.sharding.propagation.alternatives import rejected
from meshgen.sharding.propagation.chains import Chain, Reasons
from meshgen.sharding.propagation.manual_bodies import free_part
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.rewrites.cse import common_values
from meshgen.spec import Sharding

_ALIKE = 0.5  # chosen: similarity (the ratio of `difflib`) from which a name is suggested for an unknown one
_SHOWN = 40  # chosen: number of names listed in a hint
Question = str | int | None  # a value's name, a source line, or None for all values


@dataclass(frozen=True)
class _Produced:
    """A value with the op that produces it, its sharding and the reason. `note` says why it is not computed as
    written.
    """

    value: Value
    op: str
    sharding: Sharding
    why: Sequence[str]
    loc: Location | None
    note: str = ""


@dataclass(frozen=True)
class Known:
    """A propagated program, and the propagation decisions if they are known. It answers questions about values."""

    module: Module
    entered: Module | None
    solved: Solved | None
    reasons: Reasons | None
    left_out: Mapping[Value, str]  # annotated values that the optimized program does not compute, each with the reason

    def values(self, what: Question = None) -> list[dict[str, Any]]:
        """Return a record per value that `what` selects. An eliminated value is described by the value that replaces
        it.

        Raises:
            UsageError: MG0001 if `what` selects no value.
        """
        return [record for _, record in self.records(what)]

    def records(self, what: Question = None) -> list[tuple[Value, dict[str, Any]]]:
        """Return (value, record) pairs with the records of the method `values`.

        Raises:
            UsageError: MG0001 if `what` selects no value.
        """
        producers = [*self._inputs(), *_made(self.module.graph)]
        records = [
            (producer.value, self._record(producer, what))
            for producer in producers
            if _is_selected(what, producer.value, producer.loc)
        ]
        if what is not None:
            records += self._replaced_values(producers, what)
        if not records and what is not None:
            raise UsageError(
                _unknown_selection(
                    what, list(dict.fromkeys(producer.value.name for producer in producers if producer.value.name))
                )
            )
        return records

    def _inputs(self) -> Iterator[_Produced]:
        for index, value in enumerate(self.module.graph.inputs):
            annotation = self.module.in_annotations[index]
            strength = "required" if annotation and annotation.required else "hinted"
            why = (
                f"annotated as {annotation.sharding} ({strength})"
                if annotation
                else "not annotated: chosen for its uses"
            )
            yield _Produced(value, "input", self.module.in_shardings[index], [why], value.loc)

    def _replaced_values(
        self, producers: Sequence[_Produced], what: str | int
    ) -> Iterator[tuple[Value, dict[str, Any]]]:
        """Yield records of the values of the original program that were eliminated before propagation."""
        if self.entered is None:
            return
        producer_by_value = {producer.value: producer for producer in producers}
        equal_values = common_values(self.entered.graph)
        for node in program_nodes(self.entered.graph):
            for value in node.results:
                if value in producer_by_value or not _is_selected(what, value, node.loc) or is_annotation(node):
                    continue
                replacement = producer_by_value.get(equal_values.get(value, value))
                if replacement is None:
                    yield value, self._removed_record(value, node)
                    continue
                where = bracketed(location_text(replacement.loc))
                name = f"%{replacement.value.name}" if replacement.value.name else f"the result of {replacement.op}"
                note = f"it equals {name}{where}, which is computed once for both"
                record = self._record(replace(replacement, note=note), what)
                yield value, record | {"value": value.name, "location": asdict(node.loc) if node.loc else None}

    def _removed_record(self, value: Value, node: Node) -> dict[str, Any]:
        note = "it is not computed: nothing needs it in the cheapest of the equal programs that were compared"
        replicated = Sharding.replicated(value.type.rank)
        return self._record(_Produced(value, node.op, replicated, (), node.loc, note), None)

    def _record(self, producer: _Produced, what: Question) -> dict[str, Any]:
        value, loc, reasons = producer.value, producer.loc, self.reasons
        note = producer.note or self.left_out.get(value, "") or (reasons.note(value) if reasons else "")
        chains: list[Chain] = reasons.chains(value) if reasons else []
        record = {
            "value": value.name,
            "op": producer.op,
            "type": str(value.type),
            "sharding": str(producer.sharding),
            "spec": format_sharding(producer.sharding),
            "why": list(producer.why),
            "note": note,
            "chains": [chain.record() for chain in chains],
            "chain_text": [line for chain in chains for line in chain.lines()],
            "whole": reasons.whole(value) if reasons else {},
            "location": asdict(loc) if loc else None,
        }
        if what is not None and self.solved:
            sites = [site for site in self.solved.sites if value in site.node.results]
            record["rivals"] = [
                asdict(alternative) | {"text": str(alternative)}
                for s in sites
                for alternative in rejected(self.solved, s)
            ]
        return record


def known_of(executable: Compiled) -> Known:
    """Return the propagated program with its decisions. The result is cached per executable.

    Raises:
        UsageError: MG0001 for a program that was loaded after propagation.
    """
    module = executable.stages.get("propagate")
    if module is None:
        text = f"the program entered at stage '{next(iter(executable.stages))}', after its shardings were chosen"
        raise UsageError(Diagnostic("MG0001", text, hint="explain the program as it was before propagation"))
    known_by_graph = executable.decisions.setdefault("explanations", {})
    if module.graph not in known_by_graph:
        known_by_graph[module.graph] = _known_of(executable, module)
    return known_by_graph[module.graph]


def parts_about(executable: Compiled, what: Question) -> list[Compiled]:
    """Return the programs of the meshes that contain the value or line `what`, or of all meshes for None.

    Raises:
        UsageError: MG0001 if no mesh contains it.
    """
    matching_parts: list[Compiled] = []
    faults: list[Diagnostic] = []
    for part in executable.parts:
        try:
            if what is not None:
                known_of(part).values(what)
            matching_parts.append(part)
        except UsageError as error:
            faults += error.diagnostics
    if not matching_parts:
        raise UsageError(*faults)
    return matching_parts


def solved_of(part: Compiled) -> Solved | None:
    """Return the propagation decisions of one mesh, or None if the program has none."""
    return known_of(part).solved if "propagate" in part.stages else None


def reasons_of(part: Compiled) -> Reasons | None:
    """Return the reasons for the shardings of one mesh, or None for a program that was loaded after propagation."""
    return known_of(part).reasons if "propagate" in part.stages else None


def chains_to(part: Compiled, values: Iterable[Value], axes: Sequence[str]) -> list[tuple[str, Chain]]:
    """Return why `values`, which may be of a later stage, are sharded over `axes`: for each value its name and a
    chain.
    """
    reasons = reasons_of(part)
    propagated_values = [reasons.same(value) for value in dict.fromkeys(values)] if reasons else []
    return [
        (reasons.name(value), chain)
        for value in propagated_values
        if reasons and value
        for chain in reasons.chains(value)
        if any(overlaps(chain.axis, axis) for axis in axes)
    ]


def chain_record(name: str, chain: Chain) -> dict[str, Any]:
    """Return a chain of reasons for the value called `name` as a JSON-serializable dict, which includes the chain as
    text.
    """
    return {"value": name} | chain.record() | {"text": chain.lines()}


def link_parts(parts: Sequence[Compiled]) -> None:
    """Link the chains of reasons of each mesh to those of other meshes, wherever a transfer connects them."""
    reasons_by_mesh: dict[str, ReasonsAcross] = {}
    for part in parts:
        if "import" not in part.stages:
            continue
        explained, graph = known_of(part), part.stages["propagate"].graph
        if explained.solved and not isinstance(explained.reasons, ReasonsAcross):
            reasons_by_mesh[part.mesh.name] = ReasonsAcross(explained.solved, reasons_by_mesh)
            part.decisions["explanations"][graph] = replace(explained, reasons=reasons_by_mesh[part.mesh.name])


def _known_of(executable: Compiled, module: Module) -> Known:
    messages = unfollowed_values(executable, module.graph)
    if decided := decisions_of(module, executable.decisions):
        return Known(module, decided.entered, decided.solved, Reasons(decided.solved), messages)
    return Known(module, None, None, None, messages)


def _unknown_selection(what: str | int, names: Sequence[str]) -> Diagnostic:
    hint = similar_names_hint(str(what), names)
    if not isinstance(what, int):
        return Diagnostic("MG0001", f"unknown value '{what}'", hint=hint)
    hint = f"a number is a line; the value is %{what}" if str(what) in names else hint
    return Diagnostic("MG0001", f"no value on line {what}", hint=hint)


def similar_names_hint(name: str, names: Sequence[str]) -> str:
    """Return a hint for an unknown name: similar names, or else the first ones."""
    if similar_names := nearest_names(name.lstrip("%"), names, 3, _ALIKE):
        return f"did you mean {' or '.join(f'%{similar}' for similar in similar_names)}?"
    return f"values with a name are {', '.join(names[:_SHOWN])}{' ...' if len(names) > _SHOWN else ''}"


def _made(graph: Graph) -> Iterator[_Produced]:
    """Yield the values that a propagated graph defines, in program order: results of nodes, and inputs of their
    regions.
    """
    for node in graph.nodes:
        shardings = node.sharding
        assert shardings is not None, "every node has a sharding after propagation"
        for value, sharding in zip(_data_results(node), shardings.results, strict=False):
            yield _Produced(value, node.op, sharding, shardings.why, node.loc)
        if is_manual(node) and not is_open(node):
            yield from _per_device(node.regions[0], node)
        elif node.op in WITH_PROGRAMS:
            yield from _region_inputs(node)
            for region in node.regions:
                yield from _made(region)


def _data_results(node: Node) -> list[Value]:
    """Return the results of a node, except the tokens that order transfers."""
    if is_transfer_send(node):
        return []
    return node.results[:1] if is_transfer_recv(node) else node.results


def _region_inputs(node: Node) -> Iterator[_Produced]:
    """Yield the inputs of a node's regions. A loop's condition and body have the same inputs, so equal names are
    skipped.
    """
    assert node.sharding is not None, "every node has a sharding after propagation"
    shardings = node.sharding.results if is_loop(node) else node.sharding.operands
    shardings = shardings[1:] if is_branching(node) else shardings
    if is_manual(node):
        shardings = tuple(free_part(sharding, node.attrs.axes) for sharding in shardings)
    seen_names: set[str] = set()
    for region in node.regions[::-1]:
        for value, sharding in zip(region.inputs, shardings, strict=True):
            if value.name not in seen_names:
                yield _Produced(value, f"argument of {node.op}", sharding, (), value.loc or node.loc)
        seen_names |= {value.name for value in region.inputs if value.name}


def _per_device(body: Graph, manual: Node) -> Iterator[_Produced]:
    """Yield the values inside a manual computation. Their shapes are per device, because the program is written per
    device.
    """
    where = bracketed(location_text(manual.loc))
    axes = ", ".join(manual.attrs.axes)
    note = (
        f"local to a device, in the manual computation over {axes}{where}: the program says what each device computes"
    )
    for value in body.inputs:
        replicated, loc = Sharding.replicated(value.type.rank), value.loc or manual.loc
        yield _Produced(value, "argument of manual", replicated, (), loc, note)
    for node in program_nodes(body):
        for value in node.results:
            yield _Produced(value, node.op, Sharding.replicated(value.type.rank), (), node.loc, note)


def _is_selected(what: Question, value: Value, loc: Location | None) -> bool:
    if what is None:
        return True
    if isinstance(what, int):
        return loc is not None and loc.line == what
    is_scope = loc is not None and bool(loc.scope) and f"{loc.scope}/".startswith(f"{what}/")
    return is_scope or (bool(value.name) and value.name == what.lstrip("%"))
