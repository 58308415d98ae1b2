"""Random collectives: any op, mesh, order of axes, uneven tiles, shardings, roots and dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meshgen.ccl.exchange import summand_axes
from meshgen.ir.graph import DTYPES, Node, TensorType, Value
from meshgen.ir.group_calls import VARIADIC
from meshgen.ir.reduction_kinds import combines
from meshgen.mesh import Mesh, make_mesh
from meshgen.ops.types.inference import verify_node
from meshgen.spec import PARTIAL_KINDS, Sharding

Attrs = dict[str, Any]
MOST_RANKS, MOST_ELEMENTS = 12, 4096


@dataclass(frozen=True)
class Case:
    """A valid collective and the mesh on which it runs."""

    node: Node
    mesh: Mesh

    def __str__(self) -> str:
        ins, outs = ([str(value.type) for value in values] for values in (self.node.operands, self.node.results))
        return f"{self.node.op} {self.node.attrs} {ins} -> {outs} on {self.mesh}"


def random_case(rng: np.random.Generator, op: str | None = None, *, with_group_calls: bool = True) -> Case:
    """Return a random collective, possibly of several operands. Draws again if the verifier rejects a candidate."""
    while True:
        draw = _Draw(rng)
        case = draw.case(op or _one_of(rng, tuple(_OPS)))
        if case is not None and with_group_calls and case.node.op in VARIADIC and rng.random() < 0.4:
            case = draw.grouped(case)
        if case is not None and not verify_node(case.node, case.mesh):
            return case


def _one_of(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def random_mesh(rng: np.random.Generator, name: str = "mesh") -> Mesh:
    while True:
        sizes = [int(rng.integers(1, 5)) for _ in range(rng.integers(1, 4))]
        if math.prod(sizes) <= MOST_RANKS:
            return make_mesh({"xyz"[i]: size for i, size in enumerate(sizes)}, name)


@dataclass
class _Draw:
    """Generates one collective on a random mesh."""

    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.mesh = random_mesh(self.rng)
        rank = int(self.rng.integers(1, 5))
        self.shape = [int(self.rng.integers(1, 6)) for _ in range(rank)]
        if self.rng.random() < 0.05:
            self.shape[int(self.rng.integers(rank))] = 0
        self.dtype: str = _one_of(self.rng, (*DTYPES, "f32", "bf16"))
        self.axes = self.some_axes()
        self.count = self.mesh.group_size(self.axes)
        self.dim = int(self.rng.integers(rank))

    def case(self, op: str) -> Case | None:
        if op in _WITHOUT_DIMS and self.rng.random() < 0.1:
            self.shape = []
        return _OPS[op](self, op)

    def grouped(self, case: Case) -> Case:
        """Add operands of other shapes to the collective, which makes it a group call."""
        node = case.node
        for _ in range(int(self.rng.integers(1, 4))):
            self.shape = [int(self.rng.integers(0 if self.rng.random() < 0.1 else 1, 6)) for _ in self.shape]
            if other := _OPS[node.op](self, node.op):
                types = [replace(value.type, dtype=node.results[0].type.dtype) for value in other.node.results]
                node.operands += other.node.operands
                node.results += map(Value, types)
        return case

    def some_axes(self) -> tuple[str, ...]:
        """Return a random selection of mesh axes and sub-axes in random order."""
        refs: list[str] = []
        for name, size in zip(self.mesh.names, self.mesh.sizes, strict=True):
            parts = self.mesh.split_axis(name, 2, size // 2) if size == 4 and self.rng.random() < 0.4 else (name,)
            refs += [part for part in parts if self.rng.random() < 0.7]
        return tuple(refs[i] for i in self.rng.permutation(len(refs)))

    def collective(self, op: str, attrs: Attrs, source: list[int], target: list[int], dtype: str = "") -> Case:
        operand, result = TensorType(tuple(source), self.dtype), TensorType(tuple(target), dtype or self.dtype)
        return Case(Node(op, [Value(operand)], [Value(result)], attrs), self.mesh)

    def rooted(self) -> Attrs:
        root = tuple(int(self.rng.integers(self.mesh.axis_size(axis))) for axis in self.axes)
        return {"axes": self.axes, "root": root}

    def with_size(self, shape: list[int], dim: int, size: int) -> list[int]:
        return [*shape[:dim], size, *shape[dim + 1 :]]

    def kind(self, result: str) -> str | None:
        kinds = [kind for kind in PARTIAL_KINDS if combines(kind, self.dtype) and combines(kind, result)]
        return _one_of(self.rng, kinds) if kinds else None

    def reduced(self, op: str) -> Case | None:
        dtype = _one_of(self.rng, tuple(DTYPES)) if self.rng.random() < 0.1 else self.dtype
        kind = self.kind(dtype)
        attrs = (self.rooted() if op == "reduce_to" else {"axes": self.axes}) | {"kind": kind}
        return self.collective(op, attrs, self.shape, self.shape, dtype) if kind else None

    def joined(self, op: str) -> Case | None:
        """Return a collective that concatenates or splits tiles along `dim`. The last tile may be short."""
        tile = self.shape[self.dim]
        rows = self.count * tile - int(self.rng.integers(tile + 1) if self.rng.random() < 0.5 else 0)
        if self.rng.random() < 0.1:
            rows = int(self.rng.integers(0, self.count + 1))
            tile = -(-rows // self.count)
        concatenated = self.with_size(self.shape, self.dim, rows)
        shapes = (self.with_size(self.shape, self.dim, tile), concatenated)
        attrs = (self.rooted() if op in ("gather_to", "scatter_from") else {"axes": self.axes}) | {"dim": self.dim}
        if op == "reduce_scatter":
            if (kind := self.kind(self.dtype)) is None:
                return None
            attrs["kind"] = kind
        return self.collective(op, attrs, *(shapes if op in ("all_gather", "gather_to") else shapes[::-1]))

    def all_to_all(self, op: str) -> Case:
        split, concat = self.dim, int(self.rng.integers(len(self.shape)))
        rows = int(self.rng.integers(0, 4 * self.count))
        tile = -(-rows // self.count)
        source = self.with_size(self.shape, split, rows)
        target = self.with_size(self.shape, split, tile)
        width = target[concat]
        concatenated_size = self.count * width - int(self.rng.integers(width + 1) if self.rng.random() < 0.5 else 0)
        target = self.with_size(target, concat, concatenated_size)
        return self.collective(op, {"axes": self.axes, "split_dim": split, "concat_dim": concat}, source, target)

    def fetch_rows(self, op: str) -> Case:
        tile, step, rows = (int(self.rng.integers(0, 6)) for _ in range(3))
        limit = int(self.rng.integers(0, tile * self.count + 1))
        attrs: Attrs = {
            "axes": self.axes,
            "dim": self.dim,
            "base": int(self.rng.integers(-8, 9)),
            "step": step,
            "limit": limit,
        }
        choice = self.rng.random()
        if choice < 0.3:
            attrs |= {"wrap": True}
            rows = min(rows, limit)
        elif choice < 0.5:
            attrs |= {"divisor": int(self.rng.integers(1, 4))}
        elif choice < 0.75:
            attrs["parts"], rows = self.parts(tile)
        return self.collective(
            op, attrs, self.with_size(self.shape, self.dim, tile), self.with_size(self.shape, self.dim, rows)
        )

    def parts(self, tile: int) -> tuple[tuple[int, ...], int]:
        numbers: list[int] = []
        total = 0
        for _ in range(int(self.rng.integers(1, 4))):
            start = int(self.rng.integers(0, tile + 1))
            part, rows = int(self.rng.integers(0, tile - start + 1)), int(self.rng.integers(0, 4))
            limit = int(self.rng.integers(0, part * self.count + 1))
            numbers += [start, part, int(self.rng.integers(-5, 6)), int(self.rng.integers(0, 5)), rows, limit]
            total += rows
        return tuple(numbers), total

    def same(self, op: str) -> Case:
        return self.collective(op, self.rooted(), self.shape, self.shape)

    def shift(self, op: str) -> Case | None:
        if not self.axes:
            return None
        attrs = {"axes": self.axes, "shift_axis": _one_of(self.rng, self.axes), "offset": int(self.rng.integers(-3, 5))}
        return self.collective(op, attrs | {"rotate": bool(self.rng.integers(2))}, self.shape, self.shape)

    def permute_pairs(self, op: str) -> Case:
        targets = self.rng.permutation(self.mesh.size)
        pairs = tuple((s, int(t)) for s, t in enumerate(targets) if self.rng.random() < 0.7)
        return self.collective(op, {"axes": self.mesh.names, "pairs": pairs}, self.shape, self.shape)

    def recv(self, op: str) -> Case:
        coordinates = [self.rooted()["root"] for _ in range(2)]
        attrs = {"axes": self.axes, "source": coordinates[0], "destination": coordinates[1]}
        return self.collective(op, attrs, self.shape, self.shape)

    def sharding(self, mesh: Mesh, *, has_halo: bool = False) -> Sharding:
        axes = [axis for axis in mesh.names if self.shape and self.rng.random() < 0.7]
        dims: list[list[str]] = [[] for _ in self.shape]
        for i in self.rng.permutation(len(axes)):
            _one_of(self.rng, dims).append(axes[i])
        frozen = tuple(map(tuple, dims))
        free = [axis for axis in mesh.names if axis not in axes]
        partial = tuple((axis, "sum") for axis in free if self.rng.random() < 0.2)
        choice = self.rng.random()
        if has_halo or choice < 0.2:
            halo = tuple((int(self.rng.integers(3)), int(self.rng.integers(3))) if d else (0, 0) for d in frozen)
            return Sharding(frozen, partial, halo)
        if choice < 0.4:
            cuts = [
                tuple(sorted(int(self.rng.integers(n + 1)) for _ in range(mesh.group_size(d) - 1)))
                for d, n in zip(frozen, self.shape, strict=True)
            ]
            offsets = tuple(
                (0, *cut, n) if d and self.rng.random() < 0.7 else ()
                for d, cut, n in zip(frozen, cuts, self.shape, strict=True)
            )
            return Sharding(frozen, partial, (), offsets)
        return Sharding(frozen, partial)

    def retile(self, op: str) -> Case | None:
        shape = self.shape = [3 * n if self.rng.random() < 0.5 else n for n in self.shape]
        source, target = self.sharding(self.mesh), self.sharding(self.mesh)
        if (
            any(side.faults(shape, self.mesh) for side in (source, target))
            or summand_axes(source, target, self.mesh) is None
        ):
            return None
        attrs = {"source": source, "target": target, "shape": tuple(shape)}
        return self.collective(op, attrs, *(list(side.local_shape(shape, self.mesh)) for side in (source, target)))

    def update_halo(self, op: str) -> Case | None:
        target = self.sharding(self.mesh, has_halo=True)
        if target.faults(self.shape, self.mesh) or len(target.halo) != len(self.shape):
            return None
        core = Sharding(target.dims, target.partial)
        source = target if self.rng.random() < 0.5 else core
        attrs = {"sharding": target, "shape": tuple(self.shape)}
        return self.collective(op, attrs, *(list(side.local_shape(self.shape, self.mesh)) for side in (source, target)))


_OPS: dict[str, Callable[[_Draw, str], Case | None]] = {
    **dict.fromkeys(("all_reduce", "reduce_to"), _Draw.reduced),
    **dict.fromkeys(("all_gather", "reduce_scatter", "gather_to", "scatter_from"), _Draw.joined),
    "all_to_all": _Draw.all_to_all,
    "fetch_rows": _Draw.fetch_rows,
    "broadcast": _Draw.same,
    "shift": _Draw.shift,
    "permute_pairs": _Draw.permute_pairs,
    "recv": _Draw.recv,
    **dict.fromkeys(("permute", "retile"), _Draw.retile),
    "update_halo": _Draw.update_halo,
}
OPS = tuple(_OPS)
_WITHOUT_DIMS = ("all_reduce", "reduce_to", "broadcast", "shift", "permute_pairs", "recv", "retile")


def random_bytes(rng: np.random.Generator, kind: TensorType) -> np.ndarray[Any, Any]:
    """Return random values of a type; floats include infinities and NaNs with any payload."""
    if kind.dtype == "i1":
        return rng.integers(0, 2, kind.sizes).astype(np.bool_)
    if kind.dtype in ("i2", "ui2", "i4", "ui4"):
        low = {"i2": -2, "i4": -8}.get(kind.dtype, 0)
        return rng.integers(low, low + (4 if "2" in kind.dtype else 16), kind.sizes).astype(kind.numpy_dtype)
    if rng.random() < 0.5 and not kind.dtype.startswith(("i", "ui")):
        return rng.normal(size=kind.sizes).astype(kind.numpy_dtype)
    return np.frombuffer(rng.bytes(kind.nbytes), kind.numpy_dtype).reshape(kind.sizes).copy()
