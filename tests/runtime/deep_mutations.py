"""Random mutations of the programs in modules: changed attributes, operands, types and regions, and new operations.

Mutants are plausible enough that the verifier often accepts them. An accepted program must run on any numbers.
"""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Callable
from typing import Any

from meshgen.errors import MeshgenError, ModuleError
from meshgen.ir.attributes.table import attributes_of
from meshgen.ir.encode import attrs_from_json, attrs_to_json, graph_from_json, graph_to_json
from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.ops.op import AtLeast, Trait
from meshgen.ops.registry import OPS as RECORDS
from meshgen.ops.registry import evaluable_ops, with_trait
from meshgen.ops.types import inference
from meshgen.spec import PARTIAL_KINDS, Sharding

COLLECTIVES = sorted(with_trait(Trait.COLLECTIVE))
OPS = (*sorted(evaluable_ops()), "process_index", "mask_padding", "all_slice", "to_partial")
WORDS = {
    "kind": (*PARTIAL_KINDS, "add", "multiply", "maximum", "minimum", "FFT", "IFFT", "RFFT", "IRFFT", "?"),
    "direction": ("EQ", "NE", "GE", "GT", "LE", "LT", "?"), "compare_type": ("", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", "?"),
    "algorithm": ("DEFAULT", "PHILOX", "THREE_FRY", "?"), "transpose_a": ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", "?"),
    "routine": ("getrf", "geqrf", "geqp3", "orgqr", "syevd", "gesdd", "geev", "gees", "gehrd", "sytrd", "gtsv", "?"),
    "options": ("", "uplo=U", "mode=S", "mode=N", "low=2 high=3", "low=9", "high=x", "compute_left=N", "?"),
}  # fmt: skip
TYPES = ("f32", "f32", "f32", "i32", "i32", "i1", "f64", "bf16", "c64", "ui8", "ui64", "f8E4M3FN", "i4")
HUGE = (1 << 20, 1 << 31, 1 << 40, (1 << 62) + 3, (1 << 63) - 1, -(1 << 63))


def takes(op: str, count: int) -> bool:
    """Whether `op` accepts `count` operands."""
    arity = RECORDS[op].operands
    return isinstance(arity, AtLeast) or arity == count


def operands_of(op: str, rng: random.Random) -> int:
    """Return a random number of operands that `op` accepts."""
    arity = RECORDS[op].operands
    return arity.count + rng.choice([0, 0, 1, 2]) if isinstance(arity, AtLeast) else arity


class Forger:
    """Mutates the program that a manifest contains."""

    def __init__(self, manifest: dict[str, Any], rng: random.Random) -> None:
        self.manifest, self.rng = manifest, rng
        self.axes = [axis["name"] for axis in manifest["mesh"]["axes"]] or ["a"]
        self.sizes = {axis["name"]: axis["size"] or 1 for axis in manifest["mesh"]["axes"]}

    def forge(self) -> None:
        """Apply one to four changes to kernel bodies or launches."""
        bodies = [kernel for kernel in self.manifest["kernels"].values() if kernel["body"]["nodes"]]
        items = [item for item in self.items(self.manifest) if item["op"] != "kernel"]
        for _ in range(self.rng.choice([1, 1, 2, 4])):
            if items and (not bodies or self.rng.random() < 0.35):
                with contextlib.suppress(ModuleError):  # an earlier change may have made the launch invalid
                    self.change_launch(self.rng.choice(items))
            elif bodies:
                kernel = self.rng.choice(bodies)
                graph = graph_from_json(kernel["body"])
                self.change_graph(graph, [])
                with contextlib.suppress(KeyError):  # a graph that uses an undefined value cannot be serialized
                    kernel["body"] = graph_to_json(graph)

    def items(self, plan: dict[str, Any]) -> list[dict[str, Any]]:
        return [entry for item in plan["schedule"] for entry in (item, *(e for r in item.get("regions", ()) for e in self.items(r)))]  # fmt: skip

    # Launches

    def change_launch(self, item: dict[str, Any]) -> None:
        draw, attrs = self.rng.random(), attrs_from_json(item["attrs"])
        if draw < 0.6 and attrs:
            self.tweak(attrs)
        elif item["op"] in COLLECTIVES:
            item["op"] = self.rng.choice(COLLECTIVES)
            attrs |= self.attributes(item["op"], [TensorType((4, 4), "f32")])
        if draw > 0.9:
            side = item[self.rng.choice(["inputs", "outputs"])]
            side[:] = [self.rng.randrange(len(self.manifest["buffers"])) for _ in side]
        item["attrs"] = attrs_to_json(attrs)

    # Bodies

    def change_graph(self, graph: Graph, outer: list[Value]) -> None:
        regions = [(region, node) for node in graph.nodes for region in node.regions]
        if regions and self.rng.random() < 0.4:
            region, node = self.rng.choice(regions)
            before = graph.nodes[: graph.nodes.index(node)]
            self.change_graph(region, [*outer, *graph.inputs, *(v for n in before for v in n.results)])
            return
        draw: Callable[[Graph, list[Value]], None] = self.rng.choice([self.grow, self.grow, self.grow, self.change_attribute, self.change_attribute, self.change_operand, self.change_op, self.change_type, self.change_outputs, self.change_regions])  # fmt: skip
        draw(graph, outer)

    def grow(self, graph: Graph, outer: list[Value]) -> None:
        """Insert a new operation, and let its results replace some later uses of values of the same type."""
        index = self.rng.randrange(len(graph.nodes) + 1)
        visible = [*outer, *graph.inputs, *(v for node in graph.nodes[:index] for v in node.results)]
        op = self.rng.choice(OPS)
        count = operands_of(op, self.rng)
        first = self.rng.choice(visible) if visible else None
        same_type = [v for v in visible if first and v.type == first.type]
        operands = (
            [self.rng.choice(same_type if self.rng.random() < 0.7 else visible) for _ in range(count)]
            if visible
            else []
        )
        attrs, kinds = self.attributes(op, [v.type for v in operands]), [v.type for v in operands]
        regions = self.regions(op, kinds, graph)
        try:
            types = inference.infer_types(op, attrs, kinds, regions)
        except MeshgenError:
            types = None
        result_types = types or [
            self.type_like([*kinds, *(v.type for v in graph.outputs)])
            for _ in range(2 if op == "rng_bit_generator" else 1)
        ]
        node = Node(op, operands, [Value(kind) for kind in result_types], attrs, regions=regions)
        graph.nodes.insert(index, node)
        for user in graph.nodes[index + 1 :]:
            user.operands = [self.instead(v, node.results) for v in user.operands]
        graph.outputs = [self.instead(v, node.results) for v in graph.outputs]

    def instead(self, value: Value, results: list[Value]) -> Value:
        candidates = [v for v in results if v.type == value.type]
        return self.rng.choice(candidates) if candidates and self.rng.random() < 0.5 else value

    def change_attribute(self, graph: Graph, outer: list[Value]) -> None:
        nodes = [node for node in graph.nodes if node.attrs.given]
        if nodes:
            node = self.rng.choice(nodes)
            attrs = dict(node.attrs.given)
            self.tweak(attrs)
            node.attrs = attributes_of(node.op, attrs)
            self.infer_again(node)

    def change_operand(self, graph: Graph, outer: list[Value]) -> None:
        index = self.rng.randrange(len(graph.nodes)) if graph.nodes else 0
        visible = [*outer, *graph.inputs, *(v for node in graph.nodes[:index] for v in node.results)]
        if graph.nodes and graph.nodes[index].operands and visible:
            node = graph.nodes[index]
            node.operands[self.rng.randrange(len(node.operands))] = self.rng.choice(visible)
            self.infer_again(node)

    def change_op(self, graph: Graph, outer: list[Value]) -> None:
        if graph.nodes:
            node = self.rng.choice(graph.nodes)
            count = len(node.operands)
            node.op = self.rng.choice([op for op in OPS if takes(op, count)])
            attrs = self.attributes(node.op, [v.type for v in node.operands])
            node.attrs = attributes_of(
                node.op, {name: getattr(node.attrs, name, value) for name, value in attrs.items()}
            )
            self.infer_again(node)

    def change_type(self, graph: Graph, outer: list[Value]) -> None:
        values = list(graph.values())
        if values:
            value = self.rng.choice(values)
            value.type = self.type_like([value.type])

    def change_outputs(self, graph: Graph, outer: list[Value]) -> None:
        values = [*outer, *graph.values()]
        draw = self.rng.random()
        if draw < 0.3 and graph.outputs:
            del graph.outputs[self.rng.randrange(len(graph.outputs))]
        elif values:
            graph.outputs = [self.rng.choice(values) if self.rng.random() < 0.5 else v for v in graph.outputs]
            graph.outputs += [self.rng.choice(values)] if draw > 0.8 else []

    def change_regions(self, graph: Graph, outer: list[Value]) -> None:
        nodes = [node for node in graph.nodes if node.regions]
        if nodes:
            node = self.rng.choice(nodes)
            regions = [*node.regions]
            self.rng.shuffle(regions)
            node.regions = tuple(
                regions[: self.rng.randrange(len(regions) + 1)]
                + [copy.deepcopy(regions[0])] * self.rng.choice([0, 0, 1])
            )

    def infer_again(self, node: Node) -> None:
        try:
            types = inference.infer_types(node.op, node.attrs, [v.type for v in node.operands], node.regions)
        except MeshgenError:
            return
        if types and len(types) == len(node.results) and self.rng.random() < 0.7:
            for value, kind in zip(node.results, types, strict=True):
                value.type = kind

    # Attributes, types and regions of operations

    def regions(self, op: str, kinds: list[TensorType], graph: Graph) -> tuple[Graph, ...]:
        """Return regions whose signatures suit a new operation `op` on operands of types `kinds`."""
        scalars = [TensorType((), kind.dtype) for kind in kinds]
        half = scalars[: len(scalars) // 2]
        signatures: dict[str, list[tuple[list[TensorType], list[TensorType]]]] = {
            "reduce_region": [(half * 2, half)],
            "reduce_window": [(half * 2, half)],
            "scatter": [(half * 2, half)],
            "sort": [([s for s in scalars for _ in range(2)], [TensorType((), "i1")])],
            "select_and_scatter": [(scalars[:1] * 2, [TensorType((), "i1")]), (scalars[:1] * 2, scalars[:1])],
            "if": [(kinds[1:], kinds[1:])] * 2,
            "case": [(kinds[1:], kinds[1:])] * 3,
            "while": [(kinds, [TensorType((), "i1")]), (kinds, kinds)],
        }
        return tuple(self.region(*signature) for signature in signatures.get(op, ()))

    def region(self, inputs: list[TensorType], outputs: list[TensorType]) -> Graph:
        graph = Graph("region", [Value(kind) for kind in inputs])
        for kind in outputs:
            candidates = [v for v in graph.values() if v.type == kind]
            if kind.dtype == "i1" and graph.inputs and not graph.inputs[0].type.rank:
                candidates = graph.add("compare", [graph.inputs[0]] * 2, [kind], {"direction": self.rng.choice(["LT", "GT", "LT", "EQ"])}).results  # fmt: skip
            elif candidates:
                op = self.rng.choice(["add", "maximum", "subtract", "multiply"])
                candidates = graph.add(op, [self.rng.choice(candidates), self.rng.choice(candidates)], [kind]).results
            graph.outputs.append(self.rng.choice(candidates) if candidates else Value(kind))
        return graph if all(v in list(graph.values()) for v in graph.outputs) else Graph("region", graph.inputs)

    def attributes(self, op: str, kinds: list[TensorType]) -> dict[str, Any]:
        kind = RECORDS[op].attributes
        types = {
            name: text
            for name, text in kind.field_types.items()
            if name in kind.required_fields or self.rng.random() < 0.4
        }
        return {name: self.attribute(name, text, kinds) for name, text in types.items()}

    def attribute(self, name: str, type_: str, kinds: list[TensorType]) -> Any:
        rng, rank = self.rng, kinds[0].rank if kinds else 1
        if name == "value":
            import numpy as np

            return np.ones(rng.choice([(), (2,), (4, 4)]), DTYPES[rng.choice(TYPES)])
        generators: dict[str, Callable[[], Any]] = {
            "int": lambda: self.integer(rank),
            "Ints": lambda: self.integers(name, kinds, rank),
            "str": lambda: rng.choice(WORDS.get(name, ("x",))),
            "bool": lambda: rng.random() < 0.5,
            "Names": lambda: tuple(rng.sample(self.axes, rng.randrange(len(self.axes) + 1))) if rng.random() < 0.8 else (f"{self.axes[0]}:(1)2",),
            "Number": lambda: rng.choice([0, 1, -1, 0.5, float("nan"), float("inf"), 1 << 63]),
            "Place": lambda: rng.choice([0, 1, (0,), (1,), (0, 0), (None,), 5]),
            "Sharding": lambda: self.sharding(rank),
            "Mesh": lambda: make_mesh({"q": 2}, "other"),
            "Flags": lambda: tuple(rng.random() < 0.5 for _ in range(rank)),
            "Texts": lambda: rng.choice([(), ("s", "t"), ("x",)]),
            "Precisions": lambda: rng.choice([(), ("HIGHEST", "DEFAULT"), ("HIGH",), ("x", "y")]),
            "Shardings": lambda: tuple(self.sharding(kind.rank) for kind in kinds),
            "FreeShardings": lambda: tuple((self.sharding(kind.rank), (False,) * kind.rank) for kind in kinds),
            "Any": lambda: rng.choice([0, 1, (0, 1), ((0, 1),), ((0, 1), (1, 0)), "x"]),
        }  # fmt: skip
        return generators[type_]()

    def integer(self, rank: int) -> int:
        return self.rng.choice(HUGE) if self.rng.random() < 0.05 else self.rng.randrange(-1, max(rank, 3) + 1)

    def integers(self, name: str, kinds: list[TensorType], rank: int) -> tuple[int, ...]:
        if name in ("start", "limit", "slice_sizes", "shape") and kinds and self.rng.random() < 0.6:
            return tuple(0 if name == "start" else n or 0 for n in kinds[0].shape)
        if name == "perm":
            return tuple(self.rng.sample(range(rank), rank))
        count = self.rng.choice([rank, rank, rank, rank - 1, 0, 1, 2, 6])
        if name in ("dims",) or name.endswith(("_dims", "_batch", "_contract", "_map")):
            return tuple(self.rng.sample(range(rank), min(rank, max(count, 0))))
        low = 1 if any(word in name for word in ("stride", "dilation", "window")) and self.rng.random() < 0.9 else -1
        return tuple(
            self.rng.choice(HUGE) if self.rng.random() < 0.02 else self.rng.randrange(low, 4)
            for _ in range(max(count, 0))
        )

    def sharding(self, rank: int) -> Sharding:
        dims: list[tuple[str, ...]] = [() for _ in range(rank)]
        for axis in self.axes:
            if rank and self.rng.random() < 0.6:
                dims[self.rng.randrange(rank)] += (axis if self.rng.random() < 0.8 else f"{axis}:(1)2",)
        partial = ((self.axes[0], self.rng.choice(PARTIAL_KINDS)),) if self.rng.random() < 0.2 else ()
        halo = tuple((self.rng.randrange(3), self.rng.randrange(3)) for _ in dims) if self.rng.random() < 0.2 else ()
        offsets = tuple((0, 1, 4) if d else () for d in dims) if self.rng.random() < 0.1 else ()
        return Sharding(tuple(dims), partial, halo, offsets)

    def type_like(self, kinds: list[TensorType]) -> TensorType:
        kind = self.rng.choice(kinds) if kinds else TensorType((2,), "f32")
        draw = self.rng.random()
        if draw < 0.4:
            return kind
        if draw < 0.6:
            return TensorType(kind.shape, self.rng.choice(TYPES))
        if draw < 0.62:
            return TensorType((self.rng.choice(HUGE[:3]),), kind.dtype)
        sizes = list(kind.shape)
        self.rng.shuffle(sizes)
        change = self.rng.choice([sizes[1:], [*sizes, 1], [*sizes, 2], sizes, [0, *sizes[1:]], [3, *sizes[1:]]])
        return TensorType(tuple(change), kind.dtype)

    def tweak(self, attrs: dict[str, Any]) -> None:
        """Replace the value of a random attribute with another value of the same type."""
        name = self.rng.choice(list(attrs))
        value = attrs[name]
        if isinstance(value, bool):
            attrs[name] = not value
        elif isinstance(value, int):
            attrs[name] = self.rng.choice([value + 1, value - 1, 2 * value, -value, 0, 1, self.rng.choice(HUGE)])
        elif isinstance(value, str):
            attrs[name] = self.rng.choice(WORDS.get(name, (*self.axes, "x")))
        elif isinstance(value, tuple) and value:
            attrs[name] = self.tweaked(value)
        elif isinstance(value, Sharding):
            attrs[name] = self.sharding(value.rank)
        elif isinstance(value, float):
            attrs[name] = self.rng.choice([0.0, -1.0, float("nan"), 1, (1 << 64) - 1])

    def tweaked(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        entries, index = list(value), self.rng.randrange(len(value))
        draw = self.rng.random()
        if draw < 0.2:
            del entries[index]
        elif draw < 0.4:
            entries.insert(index, entries[index])
        elif draw < 0.5:
            self.rng.shuffle(entries)
        elif isinstance(entries[index], int):
            entries[index] += self.rng.choice([1, -1, 2, -4, 100, self.rng.choice(HUGE[:4])])
        elif isinstance(entries[index], str):
            entries[index] = self.rng.choice([*self.axes, f"{self.axes[0]}:(1)2", "x:(2)2"])
        elif isinstance(entries[index], tuple) and entries[index]:
            entries[index] = self.tweaked(entries[index])
        return tuple(entries)
