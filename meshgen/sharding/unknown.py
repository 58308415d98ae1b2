"""Mesh axes whose size is unknown until load.

Up to `optimize` a program keeps such an axis: passes choose as if it had a nominal size, which they note in
`Module.nominal_sizes`. Local shapes need the size, so `partition` refuses an axis that the program uses. An unused
one has no influence: the program is compiled as for one device along it, and is valid for every size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from meshgen.cost_model.model import DEFAULT
from meshgen.errors import Diagnostic, Location, ShardingError
from meshgen.ir.graph import Graph, Module, Node, NodeSharding
from meshgen.mesh import Mesh, split_ref
from meshgen.sizes.program import input_names, refuse_unknown_dims
from meshgen.spec import Sharding

TRIAL_SIZES = (1, 2, 3)  # not split, split evenly, and mostly unevenly
MOST_TRIAL_DEVICES = 72  # all are simulated in one process
Rest = ParamSpec("Rest")


def unknown_axes(module: Module) -> dict[str, Location | None]:
    """Axes of unknown size that the program uses, in mesh order, and where each is first used."""
    first: dict[str, Location | None] = {}
    for ref, loc in axis_references(module):
        first.setdefault(split_ref(ref)[0], loc)
    return {axis.name: first[axis.name] for axis in module.mesh.axes if axis.size is None and axis.name in first}


def open_axes(module: Module) -> tuple[str, ...]:
    """The mesh axes that need a size before `partition`; of a program on several meshes as `MESH:AXIS`."""
    if len(module.meshes) > 1:
        return tuple(f"{m.name}:{axis.name}" for m in module.meshes for axis in m.axes if axis.size is None)
    return tuple(unknown_axes(module))


def nominal_mesh(module: Module) -> Mesh:
    """The module's mesh with a size for every axis: the nominal one if it is unknown, 1 if the axis is unused."""
    if module.mesh.is_static:
        return module.mesh
    used = unknown_axes(module)
    units = _units(module)
    sizes = {
        axis.name: math.lcm(DEFAULT.propagation.nominal_size, units.get(axis.name, 1)) if axis.name in used else 1
        for axis in module.mesh.axes
        if axis.size is None
    }
    return module.mesh.with_sizes(sizes)


def trial_meshes(module: Module) -> list[Mesh]:
    """Meshes to try a program on: each unknown axis has each of `TRIAL_SIZES` once, different axes different ones.

    An axis of which the program names parts has multiples of them. Axes that would exceed `MOST_TRIAL_DEVICES`
    have the least size, unused ones first. The mesh itself if all sizes are known.
    """
    unknown = [axis.name for axis in module.mesh.axes if axis.size is None]
    if not unknown:
        return [module.mesh]
    units, used = _units(module), unknown_axes(module)
    return [module.mesh.with_sizes(_trial(module, unknown, turn, units, used)) for turn in range(len(TRIAL_SIZES))]


def trial_shapes(module: Module) -> list[dict[str, tuple[int, ...]]]:
    """Shapes of all inputs to try a program with open tensor dims on; empty if no input has an open dim.

    First all open dims have one size, which the devices divide, then another, which they do not, and last each its own:
    a program allows the first unless it constrains its sizes.
    """
    inputs = list(zip(input_names(module.graph), module.graph.inputs, strict=True))
    if not any(None in value.type.shape for _, value in inputs):
        return []
    devices = nominal_mesh(module).size
    even = 4 * devices if devices <= MOST_TRIAL_DEVICES else 2 * devices
    found: list[dict[str, tuple[int, ...]]] = []
    for sizes in (itertools.repeat(even), itertools.repeat(even - 1), itertools.count(even + 1)):
        rows = ((name, tuple(next(sizes) if n is None else n for n in value.type.shape)) for name, value in inputs)
        found.append(dict(rows))
    return found


def _trial(
    module: Module, unknown: Sequence[str], turn: int, units: Mapping[str, int], used: Mapping[str, object]
) -> dict[str, int]:
    sizes = {axis: units.get(axis, 1) for axis in unknown}
    devices = math.prod([*sizes.values(), *(axis.size or 1 for axis in module.mesh.axes)])
    for axis in sorted(unknown, key=lambda axis: axis not in used):
        grown = TRIAL_SIZES[(turn + unknown.index(axis)) % len(TRIAL_SIZES)]
        if devices * grown <= max(MOST_TRIAL_DEVICES, devices):
            sizes[axis] *= grown
            devices *= grown
    return sizes


def at_nominal_sizes(
    stage: Callable[Concatenate[Module, Rest], Module],
) -> Callable[Concatenate[Module, Rest], Module]:
    """A pass that chooses as if unknown axes had nominal sizes, and leaves them unknown.

    Raises ProgramError (MG0208) for tensor dims whose size is unknown.
    """

    @wraps(stage)
    def run(module: Module, *args: Rest.args, **kwargs: Rest.kwargs) -> Module:
        refuse_unknown_dims(module)
        if module.mesh.is_static:
            return stage(module, *args, **kwargs)
        if module.stage == "partition":  # local types hold for one size only
            refuse_unknown_axes(module)
        nominal = nominal_mesh(module)
        result = stage(replace(module, mesh=nominal), *args, **kwargs)
        assumed = {name: nominal.axis_size(name) for name in unknown_axes(module)}
        return replace(result, mesh=module.mesh, nominal_sizes={**result.nominal_sizes, **assumed})

    return run


def for_all_sizes(
    stage: Callable[Concatenate[Module, Rest], Module],
) -> Callable[Concatenate[Module, Rest], Module]:
    """A pass that needs the sizes of all axes that the program uses. Raises ShardingError (MG0201) with the missing ones."""

    @wraps(stage)
    def run(module: Module, *args: Rest.args, **kwargs: Rest.kwargs) -> Module:
        if module.mesh.is_static:
            return stage(module, *args, **kwargs)
        refuse_unknown_axes(module)
        result = stage(replace(module, mesh=nominal_mesh(module)), *args, **kwargs)
        return replace(result, mesh=module.mesh)

    return run


def refuse_unknown_axes(module: Module) -> None:
    """Raises ShardingError (MG0201) if the program uses axes of unknown size: each, with the first place."""
    faults = [
        Diagnostic(
            "MG0201",
            f"the program uses mesh axis '{name}' of {module.mesh}, whose size is unknown",
            loc,
            hint=f"give it, for example --mesh {name}=4",
        )
        for name, loc in unknown_axes(module).items()
    ]
    if faults:
        raise ShardingError(*faults)


def _units(module: Module) -> dict[str, int]:
    """Per axis what its size must be a multiple of: the parts that the program names."""
    units: dict[str, int] = {}
    for ref, _ in axis_references(module):
        name, pre, size = split_ref(ref)
        if size is not None:
            units[name] = math.lcm(units.get(name, 1), pre * size)
    return units


def axis_references(module: Module) -> Iterator[tuple[str, Location | None]]:
    """Every reference to a mesh axis, and its location."""
    for annotation in [*module.in_annotations, *module.out_annotations]:
        if annotation:
            yield from ((ref, annotation.loc) for ref in annotation.sharding.used_axes)
    for sharding in [*module.in_shardings, *module.out_shardings]:
        yield from ((ref, None) for ref in sharding.used_axes)
    for graph in (module.graph, *module.kernels.values()):
        yield from _graph_references(graph)


def _graph_references(graph: Graph) -> Iterator[tuple[str, Location | None]]:
    for value in graph.values():
        if value.sharding:
            yield from ((ref, value.loc) for ref in value.sharding.used_axes)
    for node in graph.nodes:
        yield from ((ref, node.loc) for ref in _node_references(node))
        for region in node.regions:
            yield from _graph_references(region)


def _node_references(node: Node) -> Iterator[str]:
    shardings: NodeSharding | None = node.sharding
    if shardings:
        for sharding in (*shardings.operands, *shardings.results):
            yield from sharding.used_axes
    yield from (axis for axes in node.option or () for axis in axes)
    yield from node.notes.hint.used_axes if node.notes.hint else ()
    yield from _attr_references(node.attrs)


def _attr_references(attrs: Mapping[str, Any]) -> Iterator[str]:
    for name, value in attrs.items():
        for each in cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,)):
            if isinstance(each, Sharding):  # a manual computation has several
                yield from each.used_axes
        if name == "axes":
            yield from cast("tuple[str, ...]", value)
        elif name == "shift_axis":
            yield cast("str", value)
