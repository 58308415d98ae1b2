"""Annotations that cause collectives: what if each were left out?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from meshgen.ir.graph import Annotation, Graph, Module, Node
from meshgen.ir.predicates import is_annotation
from meshgen.reports.changes import Change
from meshgen.reports.collectives import served
from meshgen.reports.interface import Compiled
from meshgen.reports.values import known_of
from meshgen.sharding.propagation.donated import untied_outputs
from meshgen.sharding.propagation.pseudo_ops import is_input, is_output
from meshgen.sharding.propagation.reach import seeds
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.spec import Sharding


def drops(executable: Compiled, numbers: Sequence[int] | None) -> Iterator[Change]:
    """A change for each annotation that causes collectives (those with `numbers`, or all), which could save all time of these."""
    for text, seconds in _annotations(executable, numbers).items():
        origin = _origin(text, executable)
        if origin is None:
            continue
        what, name = f"drop the {text}", origin.site.value.name
        program = partial(_dropped, executable.stages["import"], origin)
        yield Change("drop", what, name, what, seconds, program, partial(_sharding_then, origin))


@dataclass(frozen=True)
class _Origin:
    """An annotation as chains name it, and its site in the program of a mesh."""

    text: str
    site: Site
    part: Compiled
    solved: Solved


def _annotations(executable: Compiled, numbers: Sequence[int] | None) -> dict[str, float]:
    """The annotations that cause collectives, as chains name them, with the seconds that these take; of all meshes."""
    found: dict[str, float] = {}
    for each in served(executable):
        if numbers is None or each.number in numbers:
            users = [value for edge in each.edges for value in edge.users]
            for annotation in dict.fromkeys(chain.annotation for _, chain in each.chains(*each.values(), *users)):
                found[annotation] = found.get(annotation, 0.0) + each.row.seconds * each.row.times
    return found


def _origin(text: str, executable: Compiled) -> _Origin | None:
    """The site, on any mesh, of an annotation that chains name so."""
    for part in executable.parts:
        solved = known_of(part).solved
        site = next((site for site in solved.sites if text in _seeds(site, solved)), None) if solved else None
        if solved and site:
            return _Origin(text, site, part, solved)
    return None


def _sharding_then(origin: _Origin, after: Compiled) -> tuple[str, str]:
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
        number = [s for s in origin.solved.sites if s.node.op == site.node.op].index(site)
        if is_output(site.node):
            number = untied_outputs(origin.solved.module)[number]
        entered = origin.part.stages["import"]
        numbers = entered.in_numbers if is_input(site.node) else entered.out_numbers
        number = number if numbers is None else numbers[number]
        if is_input(site.node):
            return replace(module, in_annotations=_cleared(module.in_annotations, number))
        return replace(module, out_annotations=_cleared(module.out_annotations, number))
    if not is_annotation(site.node):
        return None
    return replace(module, graph=_opened(module.graph, site))


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
        if (
            is_annotation(node)
            and node.loc == site.node.loc
            and _same_sharding(attrs["sharding"], site.node.attrs.sharding)
        ):
            rank = node.result.type.rank
            mesh = attrs["sharding"].mesh
            attrs = {**attrs, "sharding": replace(Sharding.replicated(rank), mesh=mesh), "open_dims": (True,) * rank}
        nodes.append(replace(node, attrs=attrs, regions=regions))
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _same_sharding(left: Sharding, right: Sharding) -> bool:
    """Whether two shardings are the same; in the program of one mesh none is named."""
    return replace(left, mesh="") == replace(right, mesh="")
