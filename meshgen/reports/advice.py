"""Which annotation to change, and what that saves: the annotations that cause collectives are dropped one by one.

Each time the program is planned anew, so what is promised is what compiling it so gives. Only changes that move fewer
bytes are told, with what they cost in memory and time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from meshgen.errors import MeshgenError
from meshgen.ir.graph import Annotation, Graph, Module, Node
from meshgen.ir.predicates import is_annotation
from meshgen.pipeline import Options, Timing
from meshgen.records import dataclass
from meshgen.reports.collectives import collective_records_of
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import Table, bytes_text, seconds_text, table_of
from meshgen.reports.values import known_of, link_parts
from meshgen.sharding.propagation.pseudo_ops import is_input, is_output
from meshgen.sharding.propagation.reach import seeds
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.spec import Sharding

Plan = Callable[[Module, Options, Timing], Compiled]
LEAST_TRIED, SECONDS = (
    8,
    5.0,
)  # annotations, those that cause the most bytes first; more of them until this time is over, in seconds
FIGURES = ("ring_bytes", "step_seconds", "peak_memory_bytes")


@dataclass(frozen=True)
class Advice:
    """A required annotation that costs bytes: without it the value gets another sharding. Figures before and after."""

    annotation: str  # as chains say it
    value: str
    instead: str  # the sharding of the value then
    spec: str  # the same as --spec and --what-if take it; empty where it has no name
    before: dict[str, float]
    after: dict[str, float]

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def advise(
    executable: Compiled, plan: Plan, numbers: Sequence[int] | None = None, most: int | None = None
) -> list[Advice]:
    """What may be changed to move less, the most first; about some collectives by number, or all.

    Annotations that cause the most bytes are tried first: at least eight of them, and more while that takes a few seconds at most.

    Args:
        plan: from a program to its executable, as `meshgen.api.plan_module`.
        most: how many annotations to try instead.
    """
    if "propagate" not in executable.stages or "import" not in executable.stages:
        return []
    begin, found = time.monotonic(), list[Advice | None]()
    for tried, origin in enumerate(_origins(executable, numbers)):
        is_late = tried >= LEAST_TRIED and time.monotonic() - begin > SECONDS
        if tried == most or (is_late and most is None):
            break
        found.append(_without(executable, plan, origin))
    return sorted((each for each in found if each), key=lambda each: each.after["ring_bytes"])


def best_change(executable: Compiled, plan: Plan, numbers: Sequence[int]) -> str:
    """As a hint, the change that saves the most bytes of some collectives, of the three annotations that cause most of them; empty if none does."""
    found = advise(executable, plan, numbers, most=3)
    if not found:
        return ""
    best, name = found[0], f"%{found[0].value}" if found[0].value else "its value"
    moved = " instead of ".join(bytes_text(figures["ring_bytes"]) for figures in (best.after, best.before))
    return f"dropping the {best.annotation} saves the most: {name} then has sharding {best.instead}, and a step moves {moved} per device"


@dataclass(frozen=True)
class _Origin:
    """An annotation as chains name it, and its site in the program of a mesh."""

    text: str
    site: Site
    part: Compiled
    solved: Solved


def _origins(executable: Compiled, numbers: Sequence[int] | None) -> list[_Origin]:
    """The annotations that cause collectives, those that cause the most bytes first; of all meshes."""
    weights: dict[str, int] = {}
    first = 0
    if len(executable.parts) > 1:
        link_parts(executable.parts)
    for part in executable.parts:
        solved, count = known_of(part).solved, len(part.comms)
        asked = [
            n - first for n in (range(first, first + count) if numbers is None else numbers) if 0 <= n - first < count
        ]
        first += count
        if solved is None:
            continue
        for record in collective_records_of(part, solved, known_of(part).reasons, asked, weighed=False):
            chains = [*record["chains"], *(chain for edge in record["edges"] for chain in edge["chains"])]
            for annotation in dict.fromkeys(chain["annotation"] for chain in chains):
                weights[annotation] = weights.get(annotation, 0) + record["ring_bytes"]
    ordered = sorted(weights, key=lambda text: (-weights[text], text))
    return [origin for text in ordered if (origin := _origin(text, executable))]


def _origin(text: str, executable: Compiled) -> _Origin | None:
    """The site, on any mesh, of an annotation that chains name so."""
    for part in executable.parts:
        solved = known_of(part).solved
        site = next((site for site in solved.sites if text in _seeds(site, solved)), None) if solved else None
        if solved and site:
            return _Origin(text, site, part, solved)
    return None


def _without(executable: Compiled, plan: Plan, origin: _Origin) -> Advice | None:
    """What happens without an annotation; None if that moves no fewer bytes, or the annotation is not in the program's text."""
    changed = _dropped(executable.stages["import"], origin)
    if changed is None:
        return None
    try:
        after = plan(changed, replace(executable.options, strict=False), Timing())
    except MeshgenError:  # another annotation cannot be kept without it
        return None
    before, now = _figures(executable), _figures(after)
    if now["ring_bytes"] >= before["ring_bytes"]:
        return None
    instead, spec = _sharding_then(after, origin)
    return Advice(origin.text, origin.site.value.name, instead, spec, before, now)


def _sharding_then(after: Compiled, origin: _Origin) -> tuple[str, str]:
    """The sharding of the value then, as text and as a spec."""
    name = origin.site.value.name
    part = next((part for part in after.parts if part.mesh.name == origin.part.mesh.name), after)
    known = [record for record in known_of(part).values() if name and record["value"] == name]
    return (known[0]["sharding"], known[0]["spec"]) if known else ("left open", "")


def _seeds(site: Site, solved: Solved) -> set[str]:
    """The annotations of a site, as chains name them."""
    return {origin for axis in solved.decisions for _, _, origin in seeds(site, axis)}


def _dropped(module: Module, origin: _Origin) -> Module | None:
    """The program without an annotation; None if it is elsewhere, as in an option of an op. A mesh that it names is kept."""
    site = origin.site
    if site.annotation is None:
        return None
    if is_input(site.node) or is_output(site.node):
        number = _place([s for s in origin.solved.sites if s.node.op == site.node.op], site)
        entered = origin.part.stages["import"]
        side = "inputs" if is_input(site.node) else "outputs"
        number = entered.attrs[side][number] if side in entered.attrs else number
        if is_input(site.node):
            return replace(module, in_annotations=_cleared(module.in_annotations, number))
        return replace(module, out_annotations=_cleared(module.out_annotations, number))
    if not is_annotation(site.node):
        return None
    return replace(module, graph=_opened(module.graph, site))


def _place(sites: Sequence[Site], site: Site) -> int:
    return next(number for number, each in enumerate(sites) if each is site)


def _cleared(annotations: Sequence[Annotation | None], number: int) -> list[Annotation | None]:
    return [_opened_annotation(each) if at == number else each for at, each in enumerate(annotations)]


def _opened_annotation(annotation: Annotation | None) -> Annotation | None:
    """An annotation that only says on which mesh a value is; None if it names no mesh."""
    if annotation is None or not annotation.sharding.mesh:
        return None
    rank = annotation.sharding.rank
    sharding = replace(Sharding.replicated(rank), mesh=annotation.sharding.mesh)
    return replace(annotation, sharding=sharding, open_dims=(True,) * rank)


def _opened(graph: Graph, site: Site) -> Graph:
    """The graph where annotations at the site's place ask for nothing but the mesh."""
    nodes: list[Node] = []
    for node in graph.nodes:
        regions = tuple(_opened(region, site) for region in node.regions)
        attrs = node.attrs
        if is_annotation(node) and node.loc == site.node.loc and _same(attrs["sharding"], site.node.attrs.sharding):
            rank = node.result.type.rank
            mesh = attrs["sharding"].mesh
            attrs = {**attrs, "sharding": replace(Sharding.replicated(rank), mesh=mesh), "open_dims": (True,) * rank}
        nodes.append(replace(node, attrs=attrs, regions=regions))
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _same(left: Sharding, right: Sharding) -> bool:
    """Whether two shardings are the same; in the program of one mesh none is named."""
    return replace(left, mesh="") == replace(right, mesh="")


def advice_table(executable: Compiled, found: Sequence[Advice]) -> Table:
    """For people: what to change, and what the step is then."""
    rows = [(advice.annotation, advice.instead, *_figure_texts(advice.after)) for advice in found]
    now = ", ".join(f"{name} {text}" for name, text in zip(_NAMES, _figure_texts(_figures(executable)), strict=True))
    title = f"Now: {now}. " + (
        "Without one of these annotations less is moved:" if found else "No annotation saves bytes when dropped"
    )
    return table_of(title, ("annotation", "sharding then", *_NAMES), rows, left=("sharding then",))


_NAMES = ("moved", "step", "peak memory")


def _figures(executable: Compiled) -> dict[str, float]:
    record = executable.record()
    return {name: float(record[name]) for name in FIGURES}


def _figure_texts(figures: Mapping[str, float]) -> tuple[str, str, str]:
    moved, step, peak = (figures[name] for name in FIGURES)
    return bytes_text(moved), seconds_text(step), bytes_text(peak)
