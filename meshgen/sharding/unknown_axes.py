"""Mesh axes whose size is unknown until load.

Up to `optimize` a program keeps such an axis. Passes choose as if it had a nominal size, which they record in
`Module.nominal_sizes`. Local shapes need the actual size, so `partition` rejects an axis that the program uses. An
unused axis has no influence: the program is compiled for a size of 1, and is valid for every size.
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
from meshgen.sizes.program import input_names, require_known_dims
from meshgen.spec import Sharding

# chosen: an axis that splits nothing, one that splits most dims evenly, and one that splits most dims unevenly
TRIAL_SIZES = (1, 2, 3)
MOST_TRIAL_DEVICES = 72  # chosen: all devices of a trial are simulated in one process
Rest = ParamSpec("Rest")


def unknown_axes(module: Module) -> dict[str, Location | None]:
    """Return the axes of unknown size that the program uses, in mesh order, with the location of the first use."""
    first: dict[str, Location | None] = {}
    for ref, loc in axis_references(module):
        first.setdefault(split_ref(ref)[0], loc)
    return {axis.name: first[axis.name] for axis in module.mesh.axes if axis.size is None and axis.name in first}


def open_axes(module: Module) -> tuple[str, ...]:
    """Return the mesh axes that need a size before `partition`. In a program on several meshes, each is written
    `MESH:AXIS`.
    """
    if len(module.meshes) > 1:
        return tuple(f"{m.name}:{axis.name}" for m in module.meshes for axis in m.axes if axis.size is None)
    return tuple(unknown_axes(module))


def nominal_mesh(module: Module) -> Mesh:
    """Return the module's mesh with a size for every axis.

    An axis of unknown size gets the nominal size, or 1 if the program does not use it.
    """
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
    """Return meshes to test a program on, with sizes for all axes. Returns the module's own mesh if all sizes are
    known.

    Over the meshes, each unknown axis takes each of `TRIAL_SIZES` once; on one mesh, axes differ in size. If the
    program refers to sub-axes, the sizes are multiples of theirs. Axes with which the mesh would exceed
    `MOST_TRIAL_DEVICES` get their least size, unused axes first.
    """
    unknown = [axis.name for axis in module.mesh.axes if axis.size is None]
    if not unknown:
        return [module.mesh]
    units, used = _units(module), unknown_axes(module)
    return [module.mesh.with_sizes(_trial(module, unknown, trial, units, used)) for trial in range(len(TRIAL_SIZES))]


def trial_shapes(module: Module) -> list[dict[str, tuple[int, ...]]]:
    """Return shapes of all inputs, per trial, to test a program that has tensor dims of unknown size (open dims).

    Returns an empty list if no input has an open dim. In the first trial, all open dims have one size that the number
    of devices divides. In the second trial, they have one size that it does not divide. In the last trial, all sizes
    differ. A program accepts the first trial unless it constrains its sizes.
    """
    inputs = list(zip(input_names(module.graph), module.graph.inputs, strict=True))
    if not any(None in value.type.shape for _, value in inputs):
        return []
    devices = nominal_mesh(module).size
    even = 4 * devices if devices <= MOST_TRIAL_DEVICES else 2 * devices
    trials: list[dict[str, tuple[int, ...]]] = []
    for sizes in (itertools.repeat(even), itertools.repeat(even - 1), itertools.count(even + 1)):
        rows = ((name, tuple(next(sizes) if n is None else n for n in value.type.shape)) for name, value in inputs)
        trials.append(dict(rows))
    return trials


def _trial(
    module: Module, unknown: Sequence[str], trial: int, units: Mapping[str, int], used: Mapping[str, object]
) -> dict[str, int]:
    sizes = {axis: units.get(axis, 1) for axis in unknown}
    devices = math.prod([*sizes.values(), *(axis.size or 1 for axis in module.mesh.axes)])
    for axis in sorted(unknown, key=lambda axis: axis not in used):
        grown = TRIAL_SIZES[(trial + unknown.index(axis)) % len(TRIAL_SIZES)]
        if devices * grown <= max(MOST_TRIAL_DEVICES, devices):
            sizes[axis] *= grown
            devices *= grown
    return sizes


def at_nominal_sizes(
    stage: Callable[Concatenate[Module, Rest], Module],
) -> Callable[Concatenate[Module, Rest], Module]:
    """Wrap a pass so that it sees nominal sizes for unknown mesh axes. In its result the sizes are unknown again.

    The wrapped pass raises ProgramError (MG0208) for tensor dims whose size is unknown.
    """

    @wraps(stage)
    def run(module: Module, *args: Rest.args, **kwargs: Rest.kwargs) -> Module:
        require_known_dims(module)
        if module.mesh.is_static:
            return stage(module, *args, **kwargs)
        if module.stage == "partition":  # local types hold for one mesh size only
            refuse_unknown_axes(module)
        nominal = nominal_mesh(module)
        result = stage(replace(module, mesh=nominal), *args, **kwargs)
        assumed = {name: nominal.axis_size(name) for name in unknown_axes(module)}
        return replace(result, mesh=module.mesh, nominal_sizes={**result.nominal_sizes, **assumed})

    return run


def for_all_sizes(
    stage: Callable[Concatenate[Module, Rest], Module],
) -> Callable[Concatenate[Module, Rest], Module]:
    """Wrap a pass that needs the sizes of all mesh axes that the program uses.

    The wrapped pass raises ShardingError (MG0201) with the axes whose size is missing.
    """

    @wraps(stage)
    def run(module: Module, *args: Rest.args, **kwargs: Rest.kwargs) -> Module:
        if module.mesh.is_static:
            return stage(module, *args, **kwargs)
        refuse_unknown_axes(module)
        result = stage(replace(module, mesh=nominal_mesh(module)), *args, **kwargs)
        return replace(result, mesh=module.mesh)

    return run


def refuse_unknown_axes(module: Module) -> None:
    """Raise ShardingError (MG0201) if the program uses axes of unknown size; the error names each axis and its first
    use.
    """
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
    """Return for each axis a number that must divide its size, so that the sub-axes that the program refers to
    exist.
    """
    units: dict[str, int] = {}
    for ref, _ in axis_references(module):
        name, pre, size = split_ref(ref)
        if size is not None:
            units[name] = math.lcm(units.get(name, 1), pre * size)
    return units


def axis_references(module: Module) -> Iterator[tuple[str, Location | None]]:
    """Yield every reference to a mesh axis, with its location."""
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
        for item in cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,)):
            if isinstance(item, Sharding):  # a manual computation has a tuple of shardings
                yield from item.used_axes
        if name == "axes":
            yield from cast("tuple[str, ...]", value)
        elif name == "shift_axis":
            yield cast("str", value)
