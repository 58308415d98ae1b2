"""Which annotation to change, and what that saves: the annotations behind collectives are left out one by one.

Each time the program is planned anew, so what is promised is what compiling it so gives. Only changes that move fewer
bytes are told, with what they cost in memory and time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Group

from meshgen.answers.collectives import collective_records_of
from meshgen.answers.tables import bytes_text, seconds_text, table_of
from meshgen.answers.values import known_of
from meshgen.errors import MeshgenError
from meshgen.executables.executable import Executable
from meshgen.ir.graph import Annotation, Graph, Module, Node
from meshgen.pipeline import Options, Timing
from meshgen.sharding.propagate import Solved
from meshgen.sharding.propagation.reach import seeds
from meshgen.sharding.propagation.sites import Site
from meshgen.spec import Sharding

Plan = Callable[[Module, Options, Timing], Executable]
MOST_TRIED = 8  # annotations, those behind the most bytes first
FIGURES = ("ring_bytes", "step_seconds", "peak_memory_bytes")


@dataclass(frozen=True)
class Advice:
    """A required annotation that costs bytes: without it the value lies otherwise. Figures before and after."""

    annotation: str  # as chains say it
    value: str
    instead: str  # how the value lies then
    spec: str  # the same as --spec and --what-if take it; empty where it has no name
    before: dict[str, float]
    after: dict[str, float]

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def advise(executable: Executable, plan: Plan, numbers: Sequence[int] | None = None) -> list[Advice]:
    """What may be changed to move less, the most first; about some collectives by number, or all.

    Args:
        plan: from a program to its executable, as `meshgen.api.plan_module`.
    """
    if "propagate" not in executable.stages or "import" not in executable.stages or len(executable.parts) > 1:
        return []
    known = known_of(executable)
    if known.solved is None:
        return []
    numbers = range(len(executable.comms)) if numbers is None else numbers
    weights: dict[str, int] = {}
    for record in collective_records_of(executable, known.solved, known.reasons, numbers):
        chains = [*record["chains"], *(chain for edge in record["edges"] for chain in edge["chains"])]
        for annotation in dict.fromkeys(chain["annotation"] for chain in chains):
            weights[annotation] = weights.get(annotation, 0) + record["ring_bytes"]
    ordered = sorted(weights, key=lambda annotation: (-weights[annotation], annotation))
    found = [_without(executable, plan, known.solved, annotation) for annotation in ordered[:MOST_TRIED]]
    return sorted((each for each in found if each), key=lambda each: each.after["ring_bytes"])


def _without(executable: Executable, plan: Plan, solved: Solved, annotation: str) -> Advice | None:
    """What happens without an annotation; None where that moves no less, or it is no annotation of the program's text."""
    entered = executable.stages["import"]
    site = next((site for site in solved.sites if annotation in _seeds(site, solved)), None)
    changed = site and _dropped(entered, site, solved)
    if site is None or changed is None:
        return None
    try:
        after = plan(changed, replace(executable.options, strict=False), Timing())
    except MeshgenError:  # another annotation cannot be kept without it
        return None
    before, now = _figures(executable), _figures(after)
    if now["ring_bytes"] >= before["ring_bytes"]:
        return None
    lies = known_of(after).values(site.value.name) if site.value.name else []
    instead, spec = (lies[0]["sharding"], lies[0]["spec"]) if lies else ("left open", "")
    return Advice(annotation, site.value.name, instead, spec, before, now)


def _seeds(site: Site, solved: Solved) -> set[str]:
    """What a site asks for, as chains say it."""
    return {origin for axis in solved.decisions for _, _, origin in seeds(site, axis)}


def _dropped(module: Module, site: Site, solved: Solved) -> Module | None:
    """The program without the annotation of a site; None where it stands elsewhere, as in an option of an op."""
    if site.wish is None:
        return None
    if site.node.op == "input":
        number = _place([s for s in solved.sites if s.node.op == "input"], site)
        return replace(module, in_annotations=_cleared(module.in_annotations, number))
    if site.node.op == "output":
        number = _place([s for s in solved.sites if s.node.op == "output"], site)
        return replace(module, out_annotations=_cleared(module.out_annotations, number))
    if site.node.op != "annotate":
        return None
    return replace(module, graph=_opened(module.graph, site))


def _place(sites: Sequence[Site], site: Site) -> int:
    return next(number for number, each in enumerate(sites) if each is site)


def _cleared(wishes: Sequence[Annotation | None], number: int) -> list[Annotation | None]:
    return [None if at == number else wish for at, wish in enumerate(wishes)]


def _opened(graph: Graph, site: Site) -> Graph:
    """The graph where annotations at the site's place ask for nothing."""
    nodes: list[Node] = []
    for node in graph.nodes:
        regions = tuple(_opened(region, site) for region in node.regions)
        attrs = node.attrs
        if node.op == "annotate" and (node.loc, node.attrs["sharding"]) == (site.node.loc, site.node.attrs["sharding"]):
            rank = node.result.type.rank
            attrs = {**attrs, "sharding": Sharding.replicated(rank), "open_dims": (True,) * rank}
        nodes.append(replace(node, attrs=attrs, regions=regions))
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def advice_table(executable: Executable, found: Sequence[Advice]) -> Group:
    """For people: what to change, and what the step is then."""
    rows = [(advice.annotation, advice.instead, *_figure_texts(advice.after)) for advice in found]
    now = ", ".join(f"{name} {text}" for name, text in zip(_NAMES, _figure_texts(_figures(executable)), strict=True))
    title = f"Now: {now}. " + (
        "Without one of these annotations less is moved:"
        if found
        else "No annotation behind it saves bytes when it is left out"
    )
    return table_of(title, ("annotation", "then it lies as", *_NAMES), rows, left=("then it lies as",))


_NAMES = ("moved", "step", "peak memory")


def _figures(executable: Executable) -> dict[str, float]:
    record = executable.record()
    return {name: float(record[name]) for name in FIGURES}


def _figure_texts(figures: Mapping[str, float]) -> tuple[str, str, str]:
    moved, step, peak = (figures[name] for name in FIGURES)
    return bytes_text(moved), seconds_text(step), bytes_text(peak)
