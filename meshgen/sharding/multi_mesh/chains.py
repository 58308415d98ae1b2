"""Chains of programs on several meshes: one that ends at a transfer continues on the mesh at its other side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meshgen.ir.graph import Value
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.predicates import is_transfer
from meshgen.mesh import overlaps
from meshgen.sharding.propagation.chains import Chain, Reasons, Tie
from meshgen.sharding.propagation.reach import seeds
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved

Key = tuple[str, int]  # the op of a transfer, and its channel


class ReasonsAcross(Reasons):
    """The chains of one part; `parts` has those of all parts by the names of their meshes, and may be filled later."""

    def __init__(self, solved: Solved, parts: Mapping[str, ReasonsAcross]) -> None:
        super().__init__(solved)
        self.parts = parts
        transfers = [site for site in solved.sites if is_transfer(site.node)]
        self.transfers = {(site.node.op, site.node.attrs.channel): site for site in transfers}
        self._told = {
            origin: site for site in transfers for axis in solved.decisions for _, _, origin in seeds(site, axis)
        }

    def chains(self, value: Value) -> list[Chain]:
        """The chains of a value, each up to an annotation of the user's on any mesh."""
        return [self.followed(chain, frozenset()) for chain in super().chains(value)]

    def followed(self, chain: Chain, seen: frozenset[Key]) -> Chain:
        """The chain, continued across the transfer at which it ends; itself if it does not end at one."""
        here = self._told.get(chain.annotation)
        if here is None or (key := _other_side(here)) in seen:
            return chain
        peer = here.node.attrs.peer.name
        there = self.parts[peer].transfers[key]
        value = there.node.operands[0] if key[0] == "transfer_send" else there.node.results[0]
        onward = [each for each in self.parts[peer].own(value) if overlaps(each.axis, chain.axis)]
        if not onward:
            return chain
        rest = self.parts[peer].followed(onward[0], seen | {key})
        name = f"{self.parts[peer].name(value)} on @{peer}"
        tie = Tie(name, rest.state, f"transfer {key[1]}", "", here.node.loc)
        return replace(chain, ties=(*chain.ties, tie, *rest.ties), annotation=rest.annotation)

    def own(self, value: Value) -> list[Chain]:
        """The parts of the chains that are on this mesh."""
        return super().chains(value)


def _other_side(site: Site) -> Key:
    return BETWEEN_MESHES[BETWEEN_MESHES.index(site.node.op) - 1], site.node.attrs.channel
