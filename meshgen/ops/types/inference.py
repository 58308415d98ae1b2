"""Type inference and verification of nodes, by the records of the ops."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from meshgen.errors import Diagnostic, Location, ProgramError, ShardingError
from meshgen.ir.attributes.base import Attributes
from meshgen.ir.attributes.table import attributes_of
from meshgen.ir.definitions import definition_faults
from meshgen.ir.graph import DTYPES, Graph, Node, TensorType
from meshgen.ir.limits import MAX_LOCAL_RANK, size_fault
from meshgen.ir.node_keys import Form, form_of
from meshgen.mesh import Mesh
from meshgen.ops.op import AtLeast
from meshgen.ops.registry import OPS
from meshgen.ops.types import attributes, sharding
from meshgen.ops.types.site import Site, shapes_agree


def is_known(op: str) -> bool:
    """Whether the op is registered."""
    return op in OPS


def infer_types(op: str, attrs: Mapping[str, Any] | Attributes, operand_types: Sequence[TensorType],
                regions: Sequence[Graph] = (), loc: Location | None = None) -> list[TensorType] | None:  # fmt: skip
    """Return the result types of an op, or None if operands and attributes do not determine them.

    A dot or convolution gets the element type of its left operand.
    Raises:
        ProgramError: MG0103 for an unknown op, MG0104 with every fault of a malformed one.
    """
    site = Site(op, attributes_of(op, attrs), operand_types, regions, None, loc)
    types = _inspect(site)
    if site.faults:
        raise ProgramError(*site.faults)
    return types


def graph_faults(graph: Graph, mesh: Mesh | None = None) -> list[Diagnostic]:
    """Return all faults of a graph's nodes, as `verify_node` reports them.

    Similar nodes share their attribute objects, so the identity of the attributes and the types identify verified
    nodes.
    """
    valid_keys: set[tuple[Any, ...]] = set()
    diagnostics: list[Diagnostic] = []
    for node in graph.nodes:
        key = node.op, id(node.attrs), len(node.operands), *[value.type for value in (*node.operands, *node.results)]
        if key in valid_keys and not node.regions:
            continue
        if faults := verify_node(node, mesh):
            diagnostics += faults
        elif not node.regions:
            valid_keys.add(key)
    return diagnostics


def verify_node(node: Node, mesh: Mesh | None = None, manual: tuple[str, ...] = ()) -> list[Diagnostic]:
    """Return all faults of a node and its regions, with source locations.

    Args:
        mesh: if given, the sizes of collectives are checked as local types on this mesh. Pass it only after
            `partition`.
        manual: the axes of the manual computations that enclose the node.
    """
    if mesh is None and (form := form_of(node)) and _is_sound(form):
        return []
    site = _site_of(node)
    site.manual = manual
    _verify(site)
    if mesh is not None and not site.faults and "axes" in node.attrs.given and node.results:
        _check_on_mesh(site, mesh)
    diagnostics = list(site.faults)
    for region in node.regions:
        for inner in region.nodes:
            diagnostics += verify_node(inner, mesh, (*manual, *node.attrs.axes) if node.op == "manual" else manual)
    return diagnostics


def collective_faults(node: Node, mesh: Mesh) -> list[Diagnostic]:
    """Return the faults in the mesh axes and the local sizes of a collective on `mesh`."""
    site = _site_of(node)
    _check_on_mesh(site, mesh)
    return site.faults


def _site_of(node: Node) -> Site:
    results = [value.type for value in node.results]
    return Site(node.op, node.attrs, [v.type for v in node.operands], node.regions, results, node.loc)


@lru_cache(maxsize=1 << 14)
def _is_sound(form: Form) -> bool:
    """Whether nodes of form `form` are valid. The result is cached, because the layers of a model repeat few forms."""
    return not form_faults(form)


def form_faults(form: Form) -> list[Diagnostic]:
    """Return all faults of nodes with form `form`. Their regions and locations are unknown."""
    site = Site(form.op, form.attrs, list(form.operands), (), list(form.results), None)
    _verify(site)
    return site.faults


def verify_graph(graph: Graph, mesh: Mesh | None = None) -> list[Diagnostic]:
    """Return all faults of a graph: invalid nodes, and uses of undefined values."""
    return definition_faults(graph) + graph_faults(graph, mesh)


def _verify(site: Site) -> None:
    inferred = _inspect(site)
    if site.faults:
        return
    if inferred is not None:
        _check_result_types(site, inferred)
    elif (count := OPS[site.op].results) is not None:
        have = len(site.results or [])
        site.require(have == count, f"has {have} results instead of {count}")


def _inspect(site: Site) -> list[TensorType] | None:
    op = OPS.get(site.op)
    if op is None:
        site.faults.append(Diagnostic("MG0103", f"'{site.op}' is not supported", site.loc))
        return None
    _check_sizes(site)
    _check_operands(site, op.operands)
    site.faults.extend(attribute_faults(site.op, site.attrs, site.loc))
    has_valid_regions = not site.regions or op.has_regions
    site.require(has_valid_regions, f"has {len(site.regions)} regions instead of none")
    return None if site.faults else op.types(site)


def _check_sizes(site: Site) -> None:
    """Check the sizes of the results. Operands need no check, because each is a graph input or the result of another
    node.
    """
    for kind in site.results or ():
        if message := size_fault(kind, MAX_LOCAL_RANK):
            site.faults.append(Diagnostic("MG0108", f"'{site.op}': {message}", site.loc))


def _check_operands(site: Site, expected: int | AtLeast) -> None:
    count = len(site.operands)
    if isinstance(expected, AtLeast):
        site.require(count >= expected.count, f"has {count} operands; needs at least {expected.count}")
    else:
        site.require(count == expected, f"has {count} operands instead of {expected}")
    for type_ in (*site.operands, *(site.results or ())):
        site.require(type_.dtype in DTYPES, f"unknown element type '{type_.dtype}'")


def attribute_faults(op: str, attrs: Attributes, loc: Location | None = None) -> list[Diagnostic]:
    """Return the faults of an op's attributes: missing, unknown, or of another type than the field."""
    attributes_class = OPS[op].attributes
    messages = [
        f"has no attribute '{name}'"
        for name in attributes_class.field_types
        if name in attributes_class.required_fields and name not in attrs.given
    ]
    messages += [
        f"unknown attribute {reprlib.repr(name)}" for name in attrs.given if name not in attributes_class.field_types
    ]
    messages += attributes.type_faults(attrs.given, attributes_class.field_types)
    return [Diagnostic("MG0104", f"'{op}': {message}", loc) for message in messages]


def _check_result_types(site: Site, inferred: list[TensorType]) -> None:
    results = site.results or []
    if not site.require(len(results) == len(inferred), f"has {len(results)} results instead of {len(inferred)}"):
        return
    for actual, expected in zip(results, inferred, strict=True):
        matches = actual.dtype == expected.dtype and shapes_agree(actual.shape, expected.shape)
        site.require(matches, f"expected result type {expected}, got {actual}")


def _check_on_mesh(site: Site, mesh: Mesh) -> None:
    try:
        sharding.tile_faults(site, mesh)
    except ShardingError as error:
        site.faults.extend(error.diagnostics)
