"""Move a collective from an inner dim to the outermost one, so that kernels read and write its packed layout.

    before   %1 = all_gather %0 {dim = 1}                      f32[64,2] -> f32[64,8]     copies 64 runs of each tile
    after    %1 = all_gather (reshape %0) {dim = 0}            f32[1,64,2] -> f32[4,64,2]
             %2 = reshape (transpose %1 {perm = (1, 0, 2)})    f32[4,64,2] -> f32[64,8]

Networks transfer contiguous memory, so a collective along an inner dim copies to or from scratch memory. Expressed as a
transpose in the graph, this copy is an index map. It fuses at no cost into the kernel that produces the operand or the
kernels that read the result.

The pass leaves a collective alone if no kernel can absorb the transpose, unless the copy can overwrite the operand's
bytes. A `retile` without such kernels is left alone even then: it unpacks only the data that it receives, which is
faster than a kernel that copies the entire result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.ccl.collective import leading
from meshgen.ccl.lower_groups import MOST_CALLS, native_reduction
from meshgen.codegen.access_neighbors import AccessNeighbors
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.rewriter import rewritten
from meshgen.mesh import Mesh
from meshgen.spec import Sharding


@module_pass("collective-outermost-dim", "partition")
def collective_outermost_dim(module: Module, context: Compilation) -> Module:
    """Rewrite the collectives whose packing a kernel can absorb. Results with other users remain the same `Value`
    objects.
    """
    return on_graphs(module, lambda graph: _packed_by_kernels(graph, module.mesh))


def _packed_by_kernels(graph: Graph, mesh: Mesh) -> Graph:
    near = AccessNeighbors(graph)
    return rewritten(graph, lambda builder, node: _Packing(builder, mesh, near).rule(node))


class _Packing:
    """The rewrite rule that moves one collective to the outermost dim."""

    def __init__(self, builder: Builder, mesh: Mesh, near: AccessNeighbors) -> None:
        self._builder, self._mesh, self._near = builder, mesh, near

    def rule(self, node: Node) -> Sequence[Value] | None:
        match node.op:
            case "all_gather":
                value = self._all_gather(node)
            case "reduce_scatter":
                value = self._reduce_scatter(node)
            case "all_to_all":
                value = self._all_to_all(node)
            case "retile":
                value = self._retile(node)
            case _:
                value = None
        return None if value is None else [value]

    def _unpacks(self, node: Node) -> bool:
        """Whether the result may change its layout: kernels read the result, or unpacking can overwrite the operand."""
        return self._near.is_read_by_kernels(node.result) or self._near.has_free_layout(node.operands[0])

    def _all_gather(self, node: Node) -> Value | None:
        (operand,), result, dim = node.operands, node.result, node.attrs.dim
        count, tile = self._mesh.group_size(node.attrs.axes), operand.type.sizes[dim]
        lead = leading(operand.type.sizes, dim)
        is_whole = count * tile == result.type.sizes[dim]
        if count == 1 or lead == 1 or (is_whole and lead <= MOST_CALLS) or not self._unpacks(node):
            return None
        gathered = self._move(
            node, self._builder.shaped(operand, (1, *operand.type.sizes)), (count, *operand.type.sizes), dim=0
        )
        return self._merge(gathered, dim, result.type.sizes)

    def _reduce_scatter(self, node: Node) -> Value | None:
        (operand,), result, dim = node.operands, node.result, node.attrs.dim
        count, tile = self._mesh.group_size(node.attrs.axes), result.type.sizes[dim]
        lead, is_native = (
            leading(operand.type.sizes, dim),
            native_reduction(node.attrs.kind, operand.type.dtype, result.type.dtype),
        )
        if count == 1 or lead <= MOST_CALLS or not is_native or count * tile != operand.type.sizes[dim]:
            return None
        if not self._near.has_free_layout(operand):
            return None
        scattered = self._move(node, self._split_dim(operand, dim, count), (1, *result.type.sizes), dim=0)
        return self._builder.reshape(scattered, result.type.sizes)

    def _all_to_all(self, node: Node) -> Value | None:
        (operand,), result = node.operands, node.result
        split, concat = node.attrs.split_dim, node.attrs.concat_dim
        count, sizes = self._mesh.group_size(node.attrs.axes), operand.type.sizes
        if (
            count == 1
            or sizes[split] % count
            or (split != concat and sizes[concat] * count != result.type.sizes[concat])
        ):
            return None
        packs = leading(sizes, split) > 1 and self._near.has_free_layout(operand)
        unpacks = leading(result.type.sizes, concat) > 1 and self._unpacks(node)
        if not packs and not unpacks:
            return None
        block = (*sizes[:split], sizes[split] // count, *sizes[split + 1 :])
        if packs or leading(sizes, split) == 1:
            sent, split_dim = self._split_dim(operand, split, count), 0
        else:
            sent, split_dim = self._builder.shaped(operand, (1, *sizes)), split + 1
        if unpacks or leading(result.type.sizes, concat) == 1:
            received = self._move(node, sent, (count, *block), split_dim=split_dim, concat_dim=0)
            return self._merge(received, concat, result.type.sizes)
        received = self._move(node, sent, (1, *result.type.sizes), split_dim=split_dim, concat_dim=concat + 1)
        return self._builder.reshape(received, result.type.sizes)

    def _retile(self, node: Node) -> Value | None:
        """Rewrite a `retile` so that the tiles of the finer sharding are an outer dim.

        This applies along each dim that source and target shard differently. Returns None if no kernel can absorb the
        transposes.
        """
        source, target, shape = node.attrs.source, node.attrs.target, tuple(node.attrs.shape)
        if any(side.partial or side.halo or side.offsets for side in (source, target)):
            return None
        parts = [tuple(self._mesh.group_size(side.dims[d]) for side in (source, target)) for d in range(len(shape))]
        if any(size % max(both) or max(both) % min(both) for size, both in zip(shape, parts, strict=True)):
            return None
        cut = {d: max(both) for d, both in enumerate(parts) if both[0] != both[1]}
        (operand,), result = node.operands, node.result
        before, after = (
            _blocks(value.type.sizes, {d: cut[d] // parts[d][side] for d in cut})
            for side, value in enumerate((operand, result))
        )
        packs, unpacks = not _keeps_order(*before), not _keeps_order(*after)
        if (
            not (packs or unpacks)
            or (packs and not self._near.has_free_layout(operand))
            or (unpacks and not self._near.is_read_by_kernels(result))
        ):
            return None
        ends = {name: _cut_sharding(side, cut) for name, side in (("source", source), ("target", target))}
        inner = tuple(size // cut.get(d, 1) for d, size in enumerate(shape))
        moved = self._move(
            node, self._permuted(operand, *before), _permuted(*after), shape=(*cut.values(), *inner), **ends
        )
        back = tuple(sorted(range(len(after[1])), key=after[1].__getitem__))
        return self._builder.reshape(self._permuted(moved, moved.type.sizes, back), result.type.sizes)

    # ---- emitting nodes

    def _move(self, node: Node, operand: Value, sizes: Sequence[int], **attrs: object) -> Value:
        """Append a copy of the collective with operand `operand`, attributes `attrs`, and a result of shape `sizes`."""
        name = f"{node.result.name}_packed" if node.result.name else ""
        result = Value(node.result.type.with_shape(sizes), name, loc=node.result.loc)
        self._builder.add(replace(node, operands=[operand], results=[result], attrs={**node.attrs, **attrs}))
        return result

    def _split_dim(self, value: Value, dim: int, count: int) -> Value:
        """Turn `[.., count * n, ..]` into `[count, .., n, ..]`."""
        sizes = value.type.sizes
        cut = (*sizes[:dim], count, sizes[dim] // count, *sizes[dim + 1 :])
        return self._permuted(value, cut, (dim, *(d for d in range(len(cut)) if d != dim)))

    def _merge(self, value: Value, dim: int, shape: Sequence[int]) -> Value:
        """Turn `[count, .., n, ..]` into `[.., count * n, ..]`, and drop the padding rows that exceed `shape`."""
        count, *sizes = value.type.sizes
        joined = self._permuted(value, value.type.sizes, (*range(1, dim + 1), 0, *range(dim + 1, len(sizes) + 1)))
        rows = count * sizes[dim]
        if rows == shape[dim]:
            return self._builder.reshape(joined, shape)
        padded = self._builder.shaped(joined, (*sizes[:dim], rows, *sizes[dim + 1 :]))
        return self._builder.rows(padded, dim, 0, shape[dim])

    def _permuted(self, value: Value, sizes: Sequence[int], perm: Sequence[int]) -> Value:
        """Reshape `value` to `sizes`, then transpose it by `perm`."""
        if _keeps_order(sizes, perm):
            return self._builder.shaped(value, _permuted(sizes, perm))
        return self._builder.transpose(self._builder.shaped(value, sizes), perm)


def _blocks(sizes: Sequence[int], counts: dict[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split each dim `d` in `counts` into a dim of `counts[d]` blocks and a dim of the elements within a block.

    Returns:
        The sizes after the split, and the permutation that moves the block dims first.
    """
    cut: list[int] = []
    first: list[int] = []
    rest: list[int] = []
    for dim, size in enumerate(sizes):
        if dim in counts:
            first.append(len(cut))
            cut.append(counts[dim])
        rest.append(len(cut))
        cut.append(size // counts.get(dim, 1))
    return tuple(cut), (*first, *rest)


def _permuted(sizes: Sequence[int], perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(sizes[d] for d in perm)


def _keeps_order(sizes: Sequence[int], perm: Sequence[int]) -> bool:
    """Whether a transpose does not move any element in memory, because it moves only dims of size 1."""
    order = [d for d in perm if sizes[d] != 1]
    return order == sorted(order)


def _cut_sharding(sharding: Sharding, cut: dict[int, int]) -> Sharding:
    """Return the sharding of a tensor after each dim `d` in `cut` was split into `cut[d]` blocks, which become leading
    dims.
    """
    outer = tuple(sharding.dims[d] for d in cut)
    return replace(sharding, dims=(*outer, *(() if d in cut else axes for d, axes in enumerate(sharding.dims))))
