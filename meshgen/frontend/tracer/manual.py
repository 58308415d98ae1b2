"""Per-device code: `mg.manual` runs a function on the tiles of one device, with collectives over mesh axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from meshgen.calls.trees import flatten, unflatten
from meshgen.frontend.tracer.functions import to_sharding
from meshgen.frontend.tracer.linear import axis_name
from meshgen.frontend.tracer.operands import axis_of, emit, tensor
from meshgen.frontend.tracer.recording import CURRENT, Trace, current, refuse, traced, user_location
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.reduction_kinds import combines
from meshgen.ir.regions import captured, rewired_graph
from meshgen.mesh import Mesh
from meshgen.ops.types.sharding import REDUCING
from meshgen.spec import PARTIAL_KINDS, Sharding

Over = str | int | Sequence[str | int]  # Mesh axes, from the outermost to the innermost.
Specs = Sharding | Sequence[Sharding]  # One sharding per argument or result. A single argument or result needs no list.


def manual(
    function: Callable[..., Any], in_specs: Specs, out_specs: Specs, axes: Over | None = None, *, mesh: str = ""
) -> Callable[..., Any]:
    """Wrap a function that computes on the tiles (shards) of one device.

    Example: `mg.manual(f, in_specs=(mg.P("x"), mg.P()), out_specs=mg.P("x"))(a, b)`. Inside of `function`, devices
    communicate by `mg.all_reduce` and the other collectives. Tensors that `function` captures are replicated.

    Args:
        in_specs: a sharding per argument, which splits its tensors into even tiles, replicated along other axes.
        out_specs: a sharding per result, which joins the tiles; along axes that it does not name, all tiles must be
            equal.
        axes: the mesh axes over which the function is per-device code; None: all axes. The other axes stay open to
            annotations, also in the function.
        mesh: the mesh of the function, if the program has several.
    """

    def run(*args: Any) -> Any:
        outer = current()
        chosen = _mesh(outer, mesh)
        manual_axes = tuple(n for n in chosen.names if n not in outer.manual) if axes is None else _names(axes, chosen)
        if nested_axes := [name for name in manual_axes if name in outer.manual]:
            refuse(f"mg.manual over {', '.join(nested_axes)} is nested in one over the same axes")
        leaves = [[tensor(leaf) for _, leaf in flatten(structure)] for structure in args]
        flat = [structure for group in leaves for structure in group]
        in_shardings = _per_leaf(_spec_for_each(in_specs, len(args), "argument"), leaves, manual_axes, chosen)
        tiles = [
            Value(_tile(x.type, spec, chosen), x.value.name, loc=x.value.loc)
            for x, spec in zip(flat, in_shardings, strict=True)
        ]
        body = Graph("body", list(tiles))
        token = CURRENT.set(Trace(body, chosen, manual=manual_axes, meshes=outer.meshes, around=outer))
        try:
            tile_tensors = iter(Tensor(value) for value in tiles)
            result = function(*(unflatten(structure, tile_tensors) for structure in args))
            groups = list(result) if isinstance(result, (tuple, list)) else [result]
            results = [[tensor(leaf) for _, leaf in flatten(structure, written=True)] for structure in groups]
        finally:
            CURRENT.reset(token)
        out_shardings = _per_leaf(_spec_for_each(out_specs, len(groups), "result"), results, manual_axes, chosen)
        body.outputs = [x.value for group in results for x in group]
        types = [
            _global_type(value.type, spec, chosen) for value, spec in zip(body.outputs, out_shardings, strict=True)
        ]
        node = _node(body, flat, in_shardings, out_shardings, manual_axes, chosen)
        node.results = [Value(kind, loc=node.loc) for kind in types]
        outer.graph.nodes.append(node)
        return unflatten(result, iter(map(Tensor, node.results)), written=True)

    return run


def _node(
    body: Graph,
    arguments: Sequence[Tensor],
    in_shardings: Sequence[Sharding],
    out_shardings: Sequence[Sharding],
    manual_axes: tuple[str, ...],
    mesh: Mesh,
) -> Node:
    """Return the manual computation as a node. Values that `body` captures become additional, replicated operands."""
    node = Node("manual", [x.value for x in arguments], [], {}, user_location(), regions=(body,))
    captures = captured(node)
    body_inputs = {value: Value(value.type, value.name, loc=value.loc) for value in captures}
    body.inputs += body_inputs.values()
    capture_shardings = [
        replace(Sharding.replicated(value.type.rank), mesh=in_shardings[0].mesh if in_shardings else "")
        for value in captures
    ]
    attrs: dict[str, Any] = {
        "in_shardings": (*in_shardings, *capture_shardings),
        "out_shardings": tuple(out_shardings),
        "axes": manual_axes,
    }
    if any(name not in manual_axes for name in mesh.names):
        attrs |= {
            f"{side}_free": tuple((Sharding.replicated(s.rank), (True,) * s.rank) for s in attrs[f"{side}_shardings"])
            for side in ("in", "out")
        }
    operands = [*node.operands, *captures]
    return replace(node, operands=operands, attrs=attrs, regions=(rewired_graph(body, body_inputs),))


def _mesh(outer: Trace, name: str) -> Mesh:
    """Return the mesh of a manual computation. Raises ProgramError if the mesh or its axis sizes are unknown."""
    chosen = next((mesh for mesh in outer.meshes if mesh.name == name), outer.mesh)
    if chosen is None or not chosen.axes or not chosen.is_static:
        hint = "give the mesh with the function, as mg.compile(f, {'x': 4}, ...) or --mesh x=4"
        refuse("mg.manual needs a mesh whose sizes are known: the function's tensors are tiles", hint, "MG0201")
    return chosen


def _names(axes: Over, mesh: Mesh) -> tuple[str, ...]:
    """Return mesh axes by name. Raises ProgramError MG0202 for an unknown axis."""
    names = tuple(axis_name(axis) for axis in ([axes] if isinstance(axes, (str, int)) else axes))
    for name in names:
        if name not in mesh.names:
            fault = mesh.unknown_axis(name)
            refuse(fault.message, fault.hint, fault.code)
    return names


def _spec_for_each(specs: Specs, count: int, subject: str) -> Sequence[Sharding]:
    spec_list = [specs] if isinstance(specs, Sharding) else list(specs)
    if len(spec_list) != count:
        refuse(
            f"mg.manual has {len(spec_list)} shardings of its {subject}s, but there are {count}",
            f"give one for each {subject}",
        )
    return spec_list


def _per_leaf(
    specs: Sequence[Sharding], groups: Sequence[Sequence[Tensor]], manual_axes: tuple[str, ...], mesh: Mesh
) -> list[Sharding]:
    """Return one sharding per tensor; `groups` has the tensors of each argument or result, `specs` the sharding for it."""
    return [_spec(spec, x, manual_axes, mesh) for spec, group in zip(specs, groups, strict=True) for x in group]


def _spec(spec: Sharding, x: Tensor, manual_axes: tuple[str, ...], mesh: Mesh) -> Sharding:
    """Return a sharding with the rank of `x`. Raises ProgramError if it names an axis that is not manual."""
    sharding = to_sharding(spec, x.ndim)
    if current().meshes and not sharding.mesh:
        sharding = replace(sharding, mesh=mesh.name)
    _ = _names(list(sharding.used_axes), mesh)
    if other_axes := [axis for axis in sharding.used_axes if axis not in manual_axes]:
        refuse(
            f"{sharding} names {', '.join(other_axes)}, which are not manual axes of the function",
            f"its axes are {', '.join(manual_axes)}: annotate along others",
            "MG0204",
        )
    return sharding


def _tile(kind: TensorType, sharding: Sharding, mesh: Mesh) -> TensorType:
    for dim, size in enumerate(kind.sizes):
        shards = sharding.parts(dim, mesh)
        if size % shards:
            division = f"({size} % {shards} = {size % shards})"
            refuse(
                f"dim {dim} of {kind} has {size} rows, which do not divide among {shards} devices {division}",
                "pad it, or split it over fewer axes",
                "MG0204",
            )
    return kind.with_shape(sharding.local_shape(kind.sizes, mesh))


def _global_type(tile: TensorType, sharding: Sharding, mesh: Mesh) -> TensorType:
    return tile.with_shape(size * sharding.parts(dim, mesh) for dim, size in enumerate(tile.sizes))


# Collectives ---------------------------------------------------------------------------------------------------


def _group(over: Over) -> tuple[tuple[str, ...], int]:
    """Return (names of the mesh axes, number of devices in a group) for a collective over the axes `over`.

    Raises ProgramError outside of a manual computation, and for axes that are not manual.
    """
    trace = current()
    if not trace.manual or trace.mesh is None:
        refuse(
            "collectives are written inside mg.manual: elsewhere the compiler places them",
            "annotate the value, or call it in a function given to mg.manual",
        )
    names = _names(over, trace.mesh)
    if other_axes := [name for name in names if name not in trace.manual]:
        refuse(f"the function's manual axes are {', '.join(trace.manual)}, not {', '.join(other_axes)}", code="MG0204")
    return names, trace.mesh.group_size(names)


def _kind(op: str, x: Tensor, reduction: str) -> str:
    assert op in REDUCING, op
    if reduction not in PARTIAL_KINDS or not combines(reduction, x.type.dtype):
        refuse(
            f"elements of {x.type.dtype} cannot be reduced with '{reduction}'",
            f"the kinds are {', '.join(PARTIAL_KINDS)}",
        )
    return reduction


def _type_with_size(x: Tensor, dim: int, size: int) -> TensorType:
    return x.type.with_shape(size if d == dim else old for d, old in enumerate(x.shape))


def _shard_size(x: Tensor, dim: int, count: int) -> int:
    if x.shape[dim] % count:
        refuse(
            f"axis {dim} of {x.type} has {x.shape[dim]} rows, which do not divide among {count} devices", code="MG0204"
        )
    return x.shape[dim] // count


@traced
def all_reduce(x: Operand, over: Over, kind: str = "sum") -> Tensor:
    """Inside `mg.manual`: return the reduction of x over a group of devices, on each of them.

    `kind` is sum, max, min, product, and, or, xor.
    """
    x, (axes, _) = tensor(x), _group(over)
    return emit("all_reduce", [x], x.type, {"axes": axes, "kind": _kind("all_reduce", x, kind)})


@traced
def all_gather(x: Operand, over: Over, axis: int = 0) -> Tensor:
    """Inside `mg.manual`: concatenate the tensors of a group of devices along `axis`, on each of them."""
    x, (axes, count) = tensor(x), _group(over)
    dim = axis_of(axis, x.ndim)
    return emit("all_gather", [x], _type_with_size(x, dim, x.shape[dim] * count), {"axes": axes, "dim": dim})


@traced
def reduce_scatter(x: Operand, over: Over, axis: int = 0, kind: str = "sum") -> Tensor:
    """Inside `mg.manual`: reduce x over a group of devices. Each device keeps its shard of the result along `axis`."""
    x, (axes, count) = tensor(x), _group(over)
    dim = axis_of(axis, x.ndim)
    attrs = {"axes": axes, "dim": dim, "kind": _kind("reduce_scatter", x, kind)}
    return emit("reduce_scatter", [x], _type_with_size(x, dim, _shard_size(x, dim, count)), attrs)


@traced
def all_to_all(x: Operand, over: Over, split_axis: int, concat_axis: int) -> Tensor:
    """Inside `mg.manual`: split x along `split_axis`, send shard i to device i, and concatenate the received shards.

    The received shards are concatenated along `concat_axis`.
    """
    x, (axes, count) = tensor(x), _group(over)
    split, concat = axis_of(split_axis, x.ndim), axis_of(concat_axis, x.ndim)
    share = _shard_size(x, split, count)
    sizes = [share if d == split else size for d, size in enumerate(x.shape)]
    sizes[concat] *= count
    return emit("all_to_all", [x], x.type.with_shape(sizes), {"axes": axes, "split_dim": split, "concat_dim": concat})


@traced
def shift(x: Operand, over: str | int, offset: int = 1) -> Tensor:
    """Inside `mg.manual`: return x of the device that is `offset` positions before this one on a mesh axis, cyclically."""
    x, (axes, _) = tensor(x), _group([over])
    return emit("shift", [x], x.type, {"axes": axes, "shift_axis": axes[0], "offset": offset, "rotate": True})


@traced
def process_index(over: Over) -> Tensor:
    """Inside `mg.manual`: return the rank of this device in its group along the axes `over`, as i32."""
    axes, _ = _group(over)
    return emit("process_index", [], TensorType((), "i32"), {"axes": axes})
