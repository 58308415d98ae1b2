"""Lossless encoding of graphs as JSON values. Decoding a malformed document raises ModuleError MG0502 with its path."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from meshgen.errors import Location
from meshgen.ir.encode_values import (
    Json,
    array_from_json,
    array_to_json,
    as_dict,
    as_int,
    as_list,
    as_str,
    as_tuple,
    attrs_from_json,
    attrs_to_json,
    damaged,
    member,
    mesh_from_json,
    mesh_to_json,
    sharding_from_json,
    sharding_to_json,
    type_from_json,
    type_to_json,
    value_from_json,
    value_to_json,
)
from meshgen.ir.graph import Graph, Node, NodeSharding, Value
from meshgen.ir.limits import MAX_NESTING

__all__ = [
    "array_from_json", "array_to_json", "attrs_from_json", "attrs_to_json", "graph_from_json", "graph_to_json",
    "mesh_from_json", "mesh_to_json", "sharding_from_json", "sharding_to_json", "type_from_json", "type_to_json",
    "value_from_json", "value_to_json",
]  # fmt: skip


def _loc_to_json(loc: Location | None) -> Json:
    return None if loc is None else [loc.file, loc.line, loc.column]


def _loc_from_json(value: Json, path: str) -> Location | None:
    if value is None:
        return None
    file, line, column = as_list(value, path, 3)
    return Location(as_str(file, path), as_int(line, path, 0), as_int(column, path, 0))


def _node_sharding_to_json(sharding: NodeSharding | None) -> Json:
    if sharding is None:
        return None
    return {
        "operands": [sharding_to_json(s) for s in sharding.operands],
        "results": [sharding_to_json(s) for s in sharding.results],
        "option": [list(axes) for axes in sharding.option],
        "why": list(sharding.why),
    }


def _node_sharding_from_json(value: Json, path: str) -> NodeSharding | None:
    if value is None:
        return None
    return NodeSharding(
        as_tuple(member(value, "operands", path), f"{path}.operands", sharding_from_json),
        as_tuple(member(value, "results", path), f"{path}.results", sharding_from_json),
        as_tuple(member(value, "option", path), f"{path}.option", lambda v, p: as_tuple(v, p, as_str)),
        as_tuple(member(value, "why", path), f"{path}.why", as_str),
    )


def graph_to_json(graph: Graph) -> Json:
    """Encode a graph. Values are numbered in order of appearance; values in a region are numbered after the values
    around it.
    """
    return _write_graph(graph, {}, itertools.count())


def _write_graph(graph: Graph, numbers: dict[Value, int], counter: Iterator[int]) -> Json:
    def declare(value: Value) -> Json:
        numbers[value] = next(counter)  # If two nodes share a region object, the region is encoded twice.
        entry: dict[str, Json] = {"type": type_to_json(value.type)}
        if value.name:
            entry["name"] = value.name
        if value.sharding is not None:
            entry["sharding"] = sharding_to_json(value.sharding)
        if value.loc is not None:
            entry["loc"] = _loc_to_json(value.loc)
        return entry

    inputs = [declare(v) for v in graph.inputs]
    nodes: list[Json] = []
    for node in graph.nodes:
        entry = {"op": node.op, "operands": [numbers[v] for v in node.operands], "attrs": attrs_to_json(node.attrs)}
        if node.loc is not None:
            entry["loc"] = _loc_to_json(node.loc)
        if node.sharding is not None:
            entry["sharding"] = _node_sharding_to_json(node.sharding)
        if node.regions:
            entry["regions"] = [_write_graph(region, numbers, counter) for region in node.regions]
        entry["results"] = [declare(v) for v in node.results]
        nodes.append(entry)
    return {"name": graph.name, "inputs": inputs, "nodes": nodes, "outputs": [numbers[v] for v in graph.outputs]}


def graph_from_json(value: Json, path: str = "graph") -> Graph:
    """Decode a graph. Raises ModuleError MG0502 for a malformed document or a use of a value before its definition."""
    return _read_graph(value, path, [], 0)


def _read_graph(value: Json, graph_path: str, values: list[Value | None], depth: int) -> Graph:
    if depth > MAX_NESTING:
        raise damaged(graph_path, f"has regions nested more than {MAX_NESTING} deep")

    def use(index: Json, path: str) -> Value:
        value = values[as_int(index, path, 0, len(values) - 1)]
        if value is None:
            raise damaged(path, f"value {index} belongs to a region that has ended")
        return value

    first_local = len(values)
    graph = Graph(as_str(member(value, "name", graph_path), f"{graph_path}.name"))
    graph.inputs = list(as_tuple(member(value, "inputs", graph_path), f"{graph_path}.inputs", _read_value))
    values.extend(graph.inputs)
    for i, entry in enumerate(as_list(member(value, "nodes", graph_path), f"{graph_path}.nodes")):
        node_path = f"{graph_path}.nodes[{i}]"
        table = as_dict(entry, node_path)
        node = Node(
            as_str(member(entry, "op", node_path), f"{node_path}.op"),
            list(as_tuple(member(entry, "operands", node_path), f"{node_path}.operands", use)),
            [],
            attrs_from_json(member(entry, "attrs", node_path), f"{node_path}.attrs"),
            _loc_from_json(table.get("loc"), f"{node_path}.loc"),
            _node_sharding_from_json(table.get("sharding"), f"{node_path}.sharding"),
            as_tuple(
                table.get("regions", []), f"{node_path}.regions", lambda v, p: _read_graph(v, p, values, depth + 1)
            ),
        )
        node.results = list(as_tuple(member(entry, "results", node_path), f"{node_path}.results", _read_value))
        values.extend(node.results)
        graph.nodes.append(node)
    graph.outputs = list(as_tuple(member(value, "outputs", graph_path), f"{graph_path}.outputs", use))
    if depth:
        values[first_local:] = [None] * (len(values) - first_local)
    return graph


def _read_value(entry: Json, path: str) -> Value:
    table = as_dict(entry, path)
    sharding = table.get("sharding")
    return Value(
        type_from_json(member(entry, "type", path), f"{path}.type"),
        as_str(table.get("name", ""), f"{path}.name"),
        None if sharding is None else sharding_from_json(sharding, f"{path}.sharding"),
        _loc_from_json(table.get("loc"), f"{path}.loc"),
    )
