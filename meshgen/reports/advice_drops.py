"""Candidate changes that drop one annotation, which is the cause of collectives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from meshgen.ir.graph import Annotation, Graph, Module, Node
from meshgen.ir.predicates import is_annotation
from meshgen.reports.annotation_changes import Change
from meshgen.reports.collectives import served
from meshgen.reports.interface import Compiled
from meshgen.reports.value_reasons import known_of
from meshgen.sharding.propagation.donated import untied_outputs
from meshgen.sharding.propagation.pseudo_ops import is_input, is_output
from meshgen.sharding.propagation.reach import seeds
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.spec import Sharding


def drops(executable: Compiled, numbers: Sequence[int] | None) -> Iterator[Change]:
    """Yield, for each annotation that causes one of the collectives, the change that drops it.

    The possible saving of a change is the time of all collectives that the annotation causes.

    Args:
        numbers: indices of the collectives; None for all.
    """
    for text, seconds in _seconds_by_annotation(executable, numbers).items():
        origin = _find_origin(text, executable)
        if origin is None:
            continue
        action, name = f"drop the {text}", origin.site.value.name
        program = partial(_drop_annotation, executable.stages["import"], origin)
        yield Change("drop", action, name, action, seconds, program, partial(_sharding_then, origin))


@dataclass(frozen=True)
class _Origin:
    """An annotation that may be dropped: the text by which reasons refer to it, and its site in the propagation problem
    of one mesh.
    """

    text: str
    site: Site
    part: Compiled
    solved: Solved


def _seconds_by_annotation(executable: Compiled, numbers: Sequence[int] | None) -> dict[str, float]:
    """Map the text of each annotation to the total seconds of the collectives that it causes, on all meshes."""
    seconds_by_annotation: dict[str, float] = {}
    for collective in served(executable):
        if numbers is None or collective.number in numbers:
            users = [value for edge in collective.edges for value in edge.users]
            for annotation in dict.fromkeys(
                chain.annotation for _, chain in collective.chains(*collective.values(), *users)
            ):
                seconds_by_annotation[annotation] = (
                    seconds_by_annotation.get(annotation, 0.0) + collective.row.seconds * collective.row.times
                )
    return seconds_by_annotation


def _find_origin(text: str, executable: Compiled) -> _Origin | None:
    """Return the annotation that reasons call `text`, with its propagation site, from the first mesh that has it."""
    for part in executable.parts:
        solved = known_of(part).solved
        site = (
            next((site for site in solved.sites if text in _annotation_texts(site, solved)), None) if solved else None
        )
        if solved and site:
            return _Origin(text, site, part, solved)
    return None


def _sharding_then(origin: _Origin, after: Compiled) -> tuple[str, str]:
    """Return the sharding of the formerly annotated value in the compiled program `after`, as text and as a spec for
    the command line.
    """
    name = origin.site.value.name
    part = next((part for part in after.parts if part.mesh.name == origin.part.mesh.name), after)
    records = [record for record in known_of(part).values() if name and record["value"] == name]
    return (records[0]["sharding"], records[0]["spec"]) if records else ("left open", "")


def _annotation_texts(site: Site, solved: Solved) -> set[str]:
    """Return the texts by which reasons refer to the annotations of a site."""
    return {origin for axis in solved.decisions for _, _, origin in seeds(site, axis)}


def _drop_annotation(module: Module, origin: _Origin) -> Module | None:
    """Return the program without the sharding of the annotation. A mesh that the annotation names is kept.

    Returns None if the sharding comes from elsewhere, for example from an option of an op.
    """
    site = origin.site
    if site.annotation is None:
        return None
    if is_input(site.node) or is_output(site.node):
        index = [s for s in origin.solved.sites if s.node.op == site.node.op].index(site)
        if is_output(site.node):
            index = untied_outputs(origin.solved.module)[index]
        entered = origin.part.stages["import"]
        numbers = entered.in_numbers if is_input(site.node) else entered.out_numbers
        index = index if numbers is None else numbers[index]
        if is_input(site.node):
            return replace(module, in_annotations=_without_annotation(module.in_annotations, index))
        return replace(module, out_annotations=_without_annotation(module.out_annotations, index))
    if not is_annotation(site.node):
        return None
    return replace(module, graph=_without_sharding(module.graph, site))


def _without_annotation(annotations: Sequence[Annotation | None], index: int) -> list[Annotation | None]:
    return [
        _mesh_only_annotation(annotation) if at == index else annotation for at, annotation in enumerate(annotations)
    ]


def _mesh_only_annotation(annotation: Annotation | None) -> Annotation | None:
    """Return an annotation with only the mesh that `annotation` names, or None if it names no mesh."""
    if annotation is None or not annotation.sharding.mesh:
        return None
    rank = annotation.sharding.rank
    sharding = replace(Sharding.replicated(rank), mesh=annotation.sharding.mesh)
    return replace(annotation, sharding=sharding, open_dims=(True,) * rank)


def _without_sharding(graph: Graph, site: Site) -> Graph:
    """Remove the sharding, but not the mesh, from the annotations that have the location and the sharding of `site`."""
    nodes: list[Node] = []
    for node in graph.nodes:
        regions = tuple(_without_sharding(region, site) for region in node.regions)
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
    """Whether two shardings are equal apart from the mesh name, which is empty in a program on one mesh."""
    return replace(left, mesh="") == replace(right, mesh="")
