"""Why each value has its sharding: a record per value of the propagated program, or of what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError, bracketed, place_text
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.manual import is_open
from meshgen.ir.op_names import WITH_PROGRAMS
from meshgen.ir.predicates import is_annotation, is_branching, is_loop, is_manual, is_transfer_recv, is_transfer_send
from meshgen.ir.regions import program_nodes
from meshgen.mesh import overlaps
from meshgen.names import nearest_names
from meshgen.notation import format_sharding
from meshgen.reports.annotations import unmade_values
from meshgen.reports.interface import Compiled
from meshgen.sharding.multi_mesh.chains import ReasonsAcross
from meshgen.sharding.propagate import decisions_of
from meshgen.sharding.propagation.chains import Chain, Reasons
from meshgen.sharding.propagation.rejected import rejected
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.propagation.tiles import free_part
from meshgen.sharding.rewrites.cse import common_values
from meshgen.spec import Sharding

_ALIKE = 0.5  # of the letters of two names: what `difflib` calls their ratio
_SHOWN = 40  # names in a hint
Question = str | int | None  # a value's name, a line number, or everything


@dataclass(frozen=True)
class _Made:
    """A value, the op that makes it, its sharding and why; a note if it is not computed as written."""

    value: Value
    op: str
    sharding: Sharding
    why: Sequence[str]
    loc: Location | None
    note: str = ""


@dataclass(frozen=True)
class Known:
    """A program after propagation, and the decisions if propagation made them."""

    module: Module
    entered: Module | None
    solved: Solved | None
    reasons: Reasons | None
    left_out: Mapping[Value, str]  # annotated values that the optimized program does not make, and why

    def values(self, what: Question = None) -> list[dict[str, Any]]:
        """A record per value that `what` names; for one that is not computed as written, what is computed instead.

        Raises UsageError (MG0001) if `what` names none.
        """
        return [record for _, record in self.records(what)]

    def records(self, what: Question = None) -> list[tuple[Value, dict[str, Any]]]:
        """The same, each with its value. Raises UsageError (MG0001) if `what` names none."""
        made = [*self._inputs(), *_made(self.module.graph)]
        records = [(each.value, self._record(each, what)) for each in made if _is_meant(what, each.value, each.loc)]
        if what is not None:
            records += self._elsewhere(made, what)
        if not records and what is not None:
            raise UsageError(_missing(what, list(dict.fromkeys(each.value.name for each in made if each.value.name))))
        return records

    def _inputs(self) -> Iterator[_Made]:
        for number, value in enumerate(self.module.graph.inputs):
            annotation = self.module.in_annotations[number]
            kind = "required" if annotation and annotation.required else "hinted"
            why = f"annotated as {annotation.sharding} ({kind})" if annotation else "not annotated: chosen for its uses"
            yield _Made(value, "input", self.module.in_shardings[number], [why], value.loc)

    def _elsewhere(self, made: Sequence[_Made], what: str | int) -> Iterator[tuple[Value, dict[str, Any]]]:
        """Records of values of the entered program that the propagated one does not have."""
        if self.entered is None:
            return
        table = {each.value: each for each in made}
        same = common_values(self.entered.graph)
        for node in program_nodes(self.entered.graph):
            for value in node.results:
                if value in table or not _is_meant(what, value, node.loc) or is_annotation(node):
                    continue
                kept = table.get(same.get(value, value))
                if kept is None:
                    yield value, self._absent(value, node)
                    continue
                where = bracketed(place_text(kept.loc))
                name = f"%{kept.value.name}" if kept.value.name else f"the result of {kept.op}"
                note = f"it equals {name}{where}, which is computed once for both"
                record = self._record(replace(kept, note=note), what)
                yield value, record | {"value": value.name, "location": asdict(node.loc) if node.loc else None}

    def _absent(self, value: Value, node: Node) -> dict[str, Any]:
        note = "it is not computed: nothing needs it in the cheapest of the equal programs that were compared"
        whole = Sharding.replicated(value.type.rank)
        return self._record(_Made(value, node.op, whole, (), node.loc, note), None)

    def _record(self, made: _Made, what: Question) -> dict[str, Any]:
        value, loc, reasons = made.value, made.loc, self.reasons
        note = made.note or self.left_out.get(value, "") or (reasons.note(value) if reasons else "")
        chains: list[Chain] = reasons.chains(value) if reasons else []
        record = {
            "value": value.name,
            "op": made.op,
            "type": str(value.type),
            "sharding": str(made.sharding),
            "spec": format_sharding(made.sharding),
            "why": list(made.why),
            "note": note,
            "chains": [chain.record() for chain in chains],
            "chain_text": [line for chain in chains for line in chain.lines()],
            "whole": reasons.whole(value) if reasons else {},
            "location": asdict(loc) if loc else None,
        }
        if what is not None and self.solved:
            makers = [site for site in self.solved.sites if value in site.node.results]
            record["rivals"] = [
                asdict(other) | {"text": str(other)} for s in makers for other in rejected(self.solved, s)
            ]
        return record


def known_of(executable: Compiled) -> Known:
    """Return the decisions of a program's propagation, computed once per executable.

    Raises UsageError (MG0001) for a program that was entered after its shardings were chosen.
    """
    module = executable.stages.get("propagate")
    if module is None:
        text = f"the program entered at stage '{next(iter(executable.stages))}', after its shardings were chosen"
        raise UsageError(Diagnostic("MG0001", text, hint="explain the program as it was before propagation"))
    known = executable.decisions.setdefault("explanations", {})
    if module.graph not in known:
        known[module.graph] = _known_of(executable, module)
    return known[module.graph]


def parts_about(executable: Compiled, what: Question) -> list[Compiled]:
    """Return the programs of the meshes that know a value or line, all of them for None. Raises UsageError MG0001 where none does."""
    found: list[Compiled] = []
    faults: list[Diagnostic] = []
    for part in executable.parts:
        try:
            if what is not None:
                known_of(part).values(what)
            found.append(part)
        except UsageError as error:
            faults += error.diagnostics
    if not found:
        raise UsageError(*faults)
    return found


def solved_of(part: Compiled) -> Solved | None:
    """Return the decisions of the propagation of one mesh; None for a program that was entered later, or made none."""
    return known_of(part).solved if "propagate" in part.stages else None


def reasons_of(part: Compiled) -> Reasons | None:
    """Return the reasons of the shardings of one mesh; None for a program that was entered later."""
    return known_of(part).reasons if "propagate" in part.stages else None


def chains_to(part: Compiled, values: Iterable[Value], axes: Sequence[str]) -> list[tuple[str, Chain]]:
    """The chains that lead to some axes on values of a later stage, each with the name of its value."""
    reasons = reasons_of(part)
    planned = [reasons.same(value) for value in dict.fromkeys(values)] if reasons else []
    return [
        (reasons.name(value), chain)
        for value in planned
        if reasons and value
        for chain in reasons.chains(value)
        if any(overlaps(chain.axis, axis) for axis in axes)
    ]


def chain_record(name: str, chain: Chain) -> dict[str, Any]:
    """A chain of the value with this name, as plain values and as text."""
    return {"value": name} | chain.record() | {"text": chain.lines()}


def link_parts(parts: Sequence[Compiled]) -> None:
    """Let chains of reasons cross transfers between the parts of a program on several meshes."""
    linked: dict[str, ReasonsAcross] = {}
    for part in parts:
        if "import" not in part.stages:
            continue
        known, graph = known_of(part), part.stages["propagate"].graph
        if known.solved and not isinstance(known.reasons, ReasonsAcross):
            linked[part.mesh.name] = ReasonsAcross(known.solved, linked)
            part.decisions["explanations"][graph] = replace(known, reasons=linked[part.mesh.name])


def _known_of(executable: Compiled, module: Module) -> Known:
    unmade = unmade_values(executable, module.graph)
    if decided := decisions_of(module, executable.decisions):
        return Known(module, decided.entered, decided.solved, Reasons(decided.solved), unmade)
    return Known(module, None, None, None, unmade)


def _missing(what: str | int, names: Sequence[str]) -> Diagnostic:
    hint = near_names(str(what), names)
    if not isinstance(what, int):
        return Diagnostic("MG0001", f"unknown value '{what}'", hint=hint)
    hint = f"a number is a line; the value is %{what}" if str(what) in names else hint
    return Diagnostic("MG0001", f"no value on line {what}", hint=hint)


def near_names(name: str, names: Sequence[str]) -> str:
    """A hint for an unknown name: those that are written alike, else the first ones."""
    if near := nearest_names(name.lstrip("%"), names, 3, _ALIKE):
        return f"did you mean {' or '.join(f'%{each}' for each in near)}?"
    return f"values with a name are {', '.join(names[:_SHOWN])}{' ...' if len(names) > _SHOWN else ''}"


def _made(graph: Graph) -> Iterator[_Made]:
    """The results of a propagated graph's nodes and the inputs of their regions, in program order."""
    for node in graph.nodes:
        shardings = node.sharding
        assert shardings is not None, "every node has a sharding after propagation"
        for value, sharding in zip(_carried(node), shardings.results, strict=False):
            yield _Made(value, node.op, sharding, shardings.why, node.loc)
        if is_manual(node) and not is_open(node):
            yield from _per_device(node.regions[0], node)
        elif node.op in WITH_PROGRAMS:
            yield from _taken(node)
            for region in node.regions:
                yield from _made(region)


def _carried(node: Node) -> list[Value]:
    """The results of a node, without the tokens that order transfers."""
    if is_transfer_send(node):
        return []
    return node.results[:1] if is_transfer_recv(node) else node.results


def _taken(node: Node) -> Iterator[_Made]:
    """Inputs of regions. A loop's condition has the same inputs as its body, mostly by the same names."""
    assert node.sharding is not None, "every node has a sharding after propagation"
    given = node.sharding.results if is_loop(node) else node.sharding.operands
    given = given[1:] if is_branching(node) else given
    if is_manual(node):
        given = tuple(free_part(sharding, node.attrs.axes) for sharding in given)
    seen: set[str] = set()
    for region in node.regions[::-1]:
        for value, sharding in zip(region.inputs, given, strict=True):
            if value.name not in seen:
                yield _Made(value, f"argument of {node.op}", sharding, (), value.loc or node.loc)
        seen |= {value.name for value in region.inputs if value.name}


def _per_device(body: Graph, manual: Node) -> Iterator[_Made]:
    """The values of a manual computation, which the program gives per device."""
    where = bracketed(place_text(manual.loc))
    axes = ", ".join(manual.attrs.axes)
    note = f"a device's own, in the manual computation over {axes}{where}: the program says what each device computes"
    for value in body.inputs:
        whole, loc = Sharding.replicated(value.type.rank), value.loc or manual.loc
        yield _Made(value, "argument of manual", whole, (), loc, note)
    for node in program_nodes(body):
        for value in node.results:
            yield _Made(value, node.op, Sharding.replicated(value.type.rank), (), node.loc, note)


def _is_meant(what: Question, value: Value, loc: Location | None) -> bool:
    if what is None:
        return True
    if isinstance(what, int):
        return loc is not None and loc.line == what
    is_scope = loc is not None and bool(loc.scope) and f"{loc.scope}/".startswith(f"{what}/")
    return is_scope or (bool(value.name) and value.name == what.lstrip("%"))
