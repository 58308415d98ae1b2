"""Keys of measured tiles: kernels with the same structure, and with shapes of the same class, share a tile.

The structure is the body without names, sizes and values of constants. Small integers stay, because they are numbers of
dims, or sizes that determine the form of a kernel. A shape class has sizes rounded up to powers of two, so a tile
measured for 4,000 rows is also used for 4,096. A tile that does not suit a kernel of its class can be slow, never
wrong.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

from meshgen.ir.encode import attrs_to_json
from meshgen.ir.graph import Graph, TensorType, Value

EXACT_BELOW = 16  # Smaller sizes are not rounded, because they are below the smallest tile of a matmul.


def kernel_digest(body: Graph) -> str:
    """Return the SHA-256 of a body's structure, in hexadecimal."""
    structure = _structure(body, {}, itertools.count())
    return hashlib.sha256(json.dumps(structure, sort_keys=True).encode()).hexdigest()


def shape_class(body: Graph) -> str:
    """Return the operands and results with rounded sizes, such as `bf16[4096,~64] -> bf16[4096]`. A `~` marks sizes
    that 16 does not divide.
    """
    sides = (body.inputs, body.outputs)
    return " -> ".join(", ".join(_rounded(value.type) for value in side) for side in sides)


def _structure(graph: Graph, numbers: dict[Value, int], counter: Iterator[int]) -> Any:
    def declared(value: Value) -> str:
        numbers[value] = next(counter)
        return f"{value.type.dtype}/{value.type.rank}"

    inputs = [declared(value) for value in graph.inputs]
    nodes: list[Any] = []
    for node in graph.nodes:
        operands = [numbers[value] for value in node.operands]
        regions = [_structure(region, numbers, counter) for region in node.regions]
        nodes.append(
            [node.op, operands, _without_sizes(attrs_to_json(node.attrs)), regions, list(map(declared, node.results))]
        )
    return [inputs, nodes, [numbers[value] for value in graph.outputs]]


def _without_sizes(value: Any) -> Any:
    """Return a JSON attribute with large integers and arrays replaced by placeholders."""
    if isinstance(value, dict):
        if "array" in value:
            return "array"
        return {key: _without_sizes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_sizes(item) for item in value]
    return "size" if type(value) is int and value >= EXACT_BELOW else value


def _rounded(tensor_type: TensorType) -> str:
    return f"{tensor_type.dtype}[{','.join(map(_size_class, tensor_type.sizes))}]"


def _size_class(size: int) -> str:
    if size < EXACT_BELOW:
        return str(size)
    return f"{'~' if size % EXACT_BELOW else ''}{1 << (size - 1).bit_length()}"
