"""Which annotation to change, and what that saves: the annotations behind collectives are left out one by one.

Each time the program is planned anew, so what is promised is what compiling it so gives. Only changes that move fewer
bytes are told, with what they cost in memory and time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from meshgen.errors import MeshgenError
from meshgen.ir.graph import Annotation, Graph, Module, Node
from meshgen.pipeline import Options, Timing
from meshgen.reports.collectives import collective_records_of
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import Table, bytes_text, seconds_text, table_of
from meshgen.reports.values import known_of, link_parts
from meshgen.sharding.propagation.reach import seeds
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.spec import Sharding

Plan = Callable[[Module, Options, Timing], Compiled]
LEAST_TRIED, SECONDS = 8, 5.0  # annotations, those behind the most bytes first; more of them until so much time is over
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


def advise(
    executable: Compiled, plan: Plan, numbers: Sequence[int] | None = None, most: int | None = None
) -> list[Advice]:
    """What may be changed to move less, the most first; about some collectives by number, or all.

    Annotations are tried from those behind the most bytes on, at least eight of them, more while that takes no longer than a few seconds.

    Args:
        plan: from a program to its executable, as `meshgen.api.plan_module`.
        most: how many annotations to try instead.
    """
    if "propagate" not in executable.stages or "import" not in executable.stages:
        return []
    begin, found = time.monotonic(), list[Advice | None]()
    for tried, wish in enumerate(_behind(executable, numbers)):
        is_late = tried >= LEAST_TRIED and time.monotonic() - begin > SECONDS
        if tried == most or (is_late and most is None):
            break
        found.append(_without(executable, plan, wish))
    return sorted((each for each in found if each), key=lambda each: each.after["ring_bytes"])


def best_change(executable: Compiled, plan: Plan, numbers: Sequence[int]) -> str:
    """The change that saves the most of some collectives, of the three annotations behind most of their bytes, as a hint; empty where none does."""
    found = advise(executable, plan, numbers, most=3)
    if not found:
        return ""
    best, name = found[0], f"%{found[0].value}" if found[0].value else "its value"
    moved = " instead of ".join(bytes_text(figures["ring_bytes"]) for figures in (best.after, best.before))
    return f"the most is saved without the {best.annotation}: then {name} lies as {best.instead}, and a step moves {moved} per device"


@dataclass(frozen=True)
class _Wish:
    """An annotation as chains say it, and the site of a mesh's program that asks for it."""

    text: str
    site: Site
    part: Compiled
    solved: Solved


def _behind(executable: Compiled, numbers: Sequence[int] | None) -> list[_Wish]:
    """The annotations behind collectives, those behind the most bytes first; of several meshes those of all."""
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
    return [wish for text in ordered if (wish := _wish(text, executable))]


def _wish(text: str, executable: Compiled) -> _Wish | None:
    """Who asks for what chains say, on any mesh."""
    for part in executable.parts:
        solved = known_of(part).solved
        site = next((site for site in solved.sites if text in _seeds(site, solved)), None) if solved else None
        if solved and site:
            return _Wish(text, site, part, solved)
    return None


def _without(executable: Compiled, plan: Plan, wish: _Wish) -> Advice | None:
    """What happens without an annotation; None where that moves no less, or it is no annotation of the program's text."""
    changed = _dropped(executable.stages["import"], wish)
    if changed is None:
        return None
    try:
        after = plan(changed, replace(executable.options, strict=False), Timing())
    except MeshgenError:  # another annotation cannot be kept without it
        return None
    before, now = _figures(executable), _figures(after)
    if now["ring_bytes"] >= before["ring_bytes"]:
        return None
    instead, spec = _lies(after, wish)
    return Advice(wish.text, wish.site.value.name, instead, spec, before, now)


def _lies(after: Compiled, wish: _Wish) -> tuple[str, str]:
    """How the value lies then, and the same as a spec."""
    name = wish.site.value.name
    part = next((part for part in after.parts if part.mesh.name == wish.part.mesh.name), after)
    known = [record for record in known_of(part).values() if name and record["value"] == name]
    return (known[0]["sharding"], known[0]["spec"]) if known else ("left open", "")


def _seeds(site: Site, solved: Solved) -> set[str]:
    """What a site asks for, as chains say it."""
    return {origin for axis in solved.decisions for _, _, origin in seeds(site, axis)}


def _dropped(module: Module, wish: _Wish) -> Module | None:
    """The program without an annotation; None where it stands elsewhere, as in an option of an op. A mesh that it names stays named."""
    site = wish.site
    if site.wish is None:
        return None
    if site.node.op in ("input", "output"):
        number = _place([s for s in wish.solved.sites if s.node.op == site.node.op], site)
        entered = wish.part.stages["import"]
        side = "inputs" if site.node.op == "input" else "outputs"
        number = entered.attrs[side][number] if side in entered.attrs else number
        if site.node.op == "input":
            return replace(module, in_annotations=_cleared(module.in_annotations, number))
        return replace(module, out_annotations=_cleared(module.out_annotations, number))
    if site.node.op != "annotate":
        return None
    return replace(module, graph=_opened(module.graph, site))


def _place(sites: Sequence[Site], site: Site) -> int:
    return next(number for number, each in enumerate(sites) if each is site)


def _cleared(wishes: Sequence[Annotation | None], number: int) -> list[Annotation | None]:
    return [_open_wish(wish) if at == number else wish for at, wish in enumerate(wishes)]


def _open_wish(wish: Annotation | None) -> Annotation | None:
    """An annotation that says on which mesh a value is and nothing else; none where it names none."""
    if wish is None or not wish.sharding.mesh:
        return None
    rank = wish.sharding.rank
    return replace(wish, sharding=replace(Sharding.replicated(rank), mesh=wish.sharding.mesh), open_dims=(True,) * rank)


def _opened(graph: Graph, site: Site) -> Graph:
    """The graph where annotations at the site's place ask for nothing but the mesh."""
    nodes: list[Node] = []
    for node in graph.nodes:
        regions = tuple(_opened(region, site) for region in node.regions)
        attrs = node.attrs
        if (
            node.op == "annotate"
            and node.loc == site.node.loc
            and _same(attrs["sharding"], site.node.attrs["sharding"])
        ):
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
        "Without one of these annotations less is moved:"
        if found
        else "No annotation behind it saves bytes when it is left out"
    )
    return table_of(title, ("annotation", "then it lies as", *_NAMES), rows, left=("then it lies as",))


_NAMES = ("moved", "step", "peak memory")


def _figures(executable: Compiled) -> dict[str, float]:
    record = executable.record()
    return {name: float(record[name]) for name in FIGURES}


def _figure_texts(figures: Mapping[str, float]) -> tuple[str, str, str]:
    moved, step, peak = (figures[name] for name in FIGURES)
    return bytes_text(moved), seconds_text(step), bytes_text(peak)
