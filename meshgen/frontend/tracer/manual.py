"""Parts written per device: `mg.manual` runs a function on the tiles of a device, with collectives over named mesh axes."""

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
from meshgen.ir.partial_kinds import combines
from meshgen.ir.regions import captured, rewired_graph
from meshgen.mesh import Mesh
from meshgen.ops.types.sharding import REDUCING
from meshgen.spec import PARTIAL_KINDS, Sharding

Over = str | int | Sequence[str | int]  # mesh axes, outer to inner
Specs = Sharding | Sequence[Sharding]  # of each argument or result; of the only one by itself


def manual(
    function: Callable[..., Any], in_specs: Specs, out_specs: Specs, axes: Over | None = None, *, mesh: str = ""
) -> Callable[..., Any]:
    """The function as what one device computes on its tiles: `mg.manual(f, in_specs=(mg.P("x"), mg.P()), out_specs=mg.P("x"))(a, b)`.

    Called on tensors of the program, it cuts them into tiles as `in_specs` say, runs `function` once on tensors of the tiles' shapes,
    in which `mg.all_reduce` and the other collectives communicate, and assembles its results as `out_specs` say. Tiles must be even.
    Tensors from around the function are whole on every device.

    Args:
        in_specs: per argument (all tensors of a structure alike); axes that it leaves out hold copies.
        out_specs: per result; along axes that it leaves out all devices must have computed the same.
        axes: the mesh axes over which the function is written; None: all. Others stay open to annotations, also inside.
        mesh: of several meshes the one that it is on.
    """

    def run(*args: Any) -> Any:
        around = current()
        chosen = _mesh(around, mesh)
        over = tuple(n for n in chosen.names if n not in around.manual) if axes is None else _names(axes, chosen)
        if again := [name for name in over if name in around.manual]:
            refuse(f"mg.manual over {', '.join(again)} is nested in one over the same axes")
        leaves = [[tensor(leaf) for _, leaf in flatten(each)] for each in args]
        flat = [each for group in leaves for each in group]
        ins = _per_leaf(_spec_for_each(in_specs, len(args), "argument"), leaves, over, chosen)
        tiles = [
            Value(_tile(x.type, spec, chosen), x.value.name, loc=x.value.loc) for x, spec in zip(flat, ins, strict=True)
        ]
        body = Graph("body", list(tiles))
        token = CURRENT.set(Trace(body, chosen, manual=over, meshes=around.meshes, around=around))
        try:
            made = iter(Tensor(value) for value in tiles)
            result = function(*(unflatten(each, made) for each in args))
            groups = list(result) if isinstance(result, (tuple, list)) else [result]
            results = [[tensor(leaf) for _, leaf in flatten(each, written=True)] for each in groups]
        finally:
            CURRENT.reset(token)
        outs = _per_leaf(_spec_for_each(out_specs, len(groups), "result"), results, over, chosen)
        body.outputs = [x.value for group in results for x in group]
        types = [_global_type(value.type, spec, chosen) for value, spec in zip(body.outputs, outs, strict=True)]
        node = _node(body, flat, ins, outs, over, chosen)
        node.results = [Value(kind, loc=node.loc) for kind in types]
        around.graph.nodes.append(node)
        return unflatten(result, iter(map(Tensor, node.results)), written=True)

    return run


def _node(
    body: Graph,
    given: Sequence[Tensor],
    ins: Sequence[Sharding],
    outs: Sequence[Sharding],
    over: tuple[str, ...],
    mesh: Mesh,
) -> Node:
    """The computation; values that its body captures become operands."""
    node = Node("manual", [x.value for x in given], [], {}, user_location(), regions=(body,))
    outside = captured(node)
    inside = {value: Value(value.type, value.name, loc=value.loc) for value in outside}
    body.inputs += inside.values()
    whole = [replace(Sharding.replicated(value.type.rank), mesh=ins[0].mesh if ins else "") for value in outside]
    attrs: dict[str, Any] = {"in_shardings": (*ins, *whole), "out_shardings": tuple(outs), "axes": over}
    if any(name not in over for name in mesh.names):
        attrs |= {
            f"{side}_free": tuple((Sharding.replicated(s.rank), (True,) * s.rank) for s in attrs[f"{side}_shardings"])
            for side in ("in", "out")
        }
    operands = [*node.operands, *outside]
    return replace(node, operands=operands, attrs=attrs, regions=(rewired_graph(body, inside),))


def _mesh(around: Trace, name: str) -> Mesh:
    """The mesh of a computation. Raises ProgramError where it is not known yet."""
    found = next((mesh for mesh in around.meshes if mesh.name == name), around.mesh)
    if found is None or not found.axes or not found.is_static:
        hint = "give the mesh with the function, as mg.compile(f, {'x': 4}, ...) or --mesh x=4"
        refuse("mg.manual needs a mesh whose sizes are known: the function's tensors are tiles", hint, "MG0201")
    return found


def _names(axes: Over, mesh: Mesh) -> tuple[str, ...]:
    """Mesh axes by name. Raises ProgramError MG0202 for an unknown one."""
    names = tuple(axis_name(axis) for axis in ([axes] if isinstance(axes, (str, int)) else axes))
    for name in names:
        if name not in mesh.names:
            fault = mesh.unknown_axis(name)
            refuse(fault.message, fault.hint, fault.code)
    return names


def _spec_for_each(specs: Specs, count: int, what: str) -> Sequence[Sharding]:
    found = [specs] if isinstance(specs, Sharding) else list(specs)
    if len(found) != count:
        refuse(
            f"mg.manual has {len(found)} shardings of its {what}s, but there are {count}", f"give one for each {what}"
        )
    return found


def _per_leaf(
    specs: Sequence[Sharding], groups: Sequence[Sequence[Tensor]], over: tuple[str, ...], mesh: Mesh
) -> list[Sharding]:
    """The sharding of each tensor of each argument or result."""
    return [_spec(spec, x, over, mesh) for spec, group in zip(specs, groups, strict=True) for x in group]


def _spec(spec: Sharding, x: Tensor, over: tuple[str, ...], mesh: Mesh) -> Sharding:
    """A sharding at the tensor's rank that names manual axes only."""
    sharding = to_sharding(spec, x.ndim)
    if current().meshes and not sharding.mesh:
        sharding = replace(sharding, mesh=mesh.name)
    _ = _names(list(sharding.used_axes), mesh)
    if other := [axis for axis in sharding.used_axes if axis not in over]:
        refuse(
            f"{sharding} names {', '.join(other)}, which are not manual axes of the function",
            f"its axes are {', '.join(over)}: annotate along others",
            "MG0204",
        )
    return sharding


def _tile(kind: TensorType, sharding: Sharding, mesh: Mesh) -> TensorType:
    for dim, size in enumerate(kind.sizes):
        parts = sharding.parts(dim, mesh)
        if size % parts:
            rest = f"({size} % {parts} = {size % parts})"
            refuse(
                f"dim {dim} of {kind} has {size} rows, which do not divide among {parts} devices {rest}",
                "pad it, or split it over fewer axes",
                "MG0204",
            )
    return kind.with_shape(sharding.local_shape(kind.sizes, mesh))


def _global_type(tile: TensorType, sharding: Sharding, mesh: Mesh) -> TensorType:
    return tile.with_shape(size * sharding.parts(dim, mesh) for dim, size in enumerate(tile.sizes))


# Collectives ---------------------------------------------------------------------------------------------------


def _group(over: Over) -> tuple[tuple[str, ...], int]:
    """Axes over which devices of a manual computation communicate, and how many are in a group."""
    trace = current()
    if not trace.manual or trace.mesh is None:
        refuse(
            "collectives are written inside mg.manual: elsewhere the compiler places them",
            "annotate the value, or call it in a function given to mg.manual",
        )
    names = _names(over, trace.mesh)
    if other := [name for name in names if name not in trace.manual]:
        refuse(f"the function's manual axes are {', '.join(trace.manual)}, not {', '.join(other)}", code="MG0204")
    return names, trace.mesh.group_size(names)


def _kind(op: str, x: Tensor, kind: str) -> str:
    assert op in REDUCING, op
    if kind not in PARTIAL_KINDS or not combines(kind, x.type.dtype):
        refuse(
            f"elements of {x.type.dtype} cannot be reduced with '{kind}'", f"the kinds are {', '.join(PARTIAL_KINDS)}"
        )
    return kind


def _type_with_size(x: Tensor, dim: int, size: int) -> TensorType:
    return x.type.with_shape(size if d == dim else old for d, old in enumerate(x.shape))


def _share(x: Tensor, dim: int, count: int) -> int:
    if x.shape[dim] % count:
        refuse(
            f"axis {dim} of {x.type} has {x.shape[dim]} rows, which do not divide among {count} devices", code="MG0204"
        )
    return x.shape[dim] // count


@traced
def all_reduce(x: Operand, over: Over, kind: str = "sum") -> Tensor:
    """In `mg.manual`: the sum (max, min, product, and, or, xor) over the devices of a group, on all of them."""
    x, (axes, _) = tensor(x), _group(over)
    return emit("all_reduce", [x], x.type, {"axes": axes, "kind": _kind("all_reduce", x, kind)})


@traced
def all_gather(x: Operand, over: Over, axis: int = 0) -> Tensor:
    """In `mg.manual`: the group's tiles one after the other along an axis, on all of its devices."""
    x, (axes, count) = tensor(x), _group(over)
    dim = axis_of(axis, x.ndim)
    return emit("all_gather", [x], _type_with_size(x, dim, x.shape[dim] * count), {"axes": axes, "dim": dim})


@traced
def reduce_scatter(x: Operand, over: Over, axis: int = 0, kind: str = "sum") -> Tensor:
    """In `mg.manual`: of the sum over a group each device's own rows along an axis."""
    x, (axes, count) = tensor(x), _group(over)
    dim = axis_of(axis, x.ndim)
    attrs = {"axes": axes, "dim": dim, "kind": _kind("reduce_scatter", x, kind)}
    return emit("reduce_scatter", [x], _type_with_size(x, dim, _share(x, dim, count)), attrs)


@traced
def all_to_all(x: Operand, over: Over, split_axis: int, concat_axis: int) -> Tensor:
    """In `mg.manual`: each device's rows along one axis go to the others, whose rows are joined along another."""
    x, (axes, count) = tensor(x), _group(over)
    split, concat = axis_of(split_axis, x.ndim), axis_of(concat_axis, x.ndim)
    share = _share(x, split, count)
    sizes = [share if d == split else size for d, size in enumerate(x.shape)]
    sizes[concat] *= count
    return emit("all_to_all", [x], x.type.with_shape(sizes), {"axes": axes, "split_dim": split, "concat_dim": concat})


@traced
def shift(x: Operand, over: str | int, offset: int = 1) -> Tensor:
    """In `mg.manual`: each device gets the tensor of the one `offset` places before it along a mesh axis, as in a ring."""
    x, (axes, _) = tensor(x), _group([over])
    return emit("shift", [x], x.type, {"axes": axes, "shift_axis": axes[0], "offset": offset, "rotate": True})


@traced
def process_index(over: Over) -> Tensor:
    """In `mg.manual`: the device's number in its group, an i32."""
    axes, _ = _group(over)
    return emit("process_index", [], TensorType((), "i32"), {"axes": axes})
