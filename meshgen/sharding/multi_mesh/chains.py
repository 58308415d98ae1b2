"""Reasons of shardings, as chains of ops, that continue across transfers between meshes.

A chain leads from a value to the annotation that determined its sharding. If a chain ends at a transfer, it continues
on the mesh at the other side of the transfer.
"""

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

Key = tuple[str, int]  # (op of a transfer, channel of the transfer)


class ReasonsAcross(Reasons):
    """Finds the reasons of shardings in the program of one mesh (a part), as chains that continue in other parts.

    Attributes:
        parts: the reasons of every part, by mesh name. The caller may complete this mapping after construction.
    """

    def __init__(self, solved: Solved, parts: Mapping[str, ReasonsAcross]) -> None:
        super().__init__(solved)
        self.parts = parts
        transfers = [site for site in solved.sites if is_transfer(site.node)]
        self.transfers = {(site.node.op, site.node.attrs.channel): site for site in transfers}
        self._transfer_of_hint = {
            origin: site for site in transfers for axis in solved.decisions for _, _, origin in seeds(site, axis)
        }

    def chains(self, value: Value) -> list[Chain]:
        """Return the chains of a value, each up to the user's annotation on any mesh."""
        return [self.followed(chain, frozenset()) for chain in super().chains(value)]

    def followed(self, chain: Chain, seen: frozenset[Key]) -> Chain:
        """Return the chain, continued across the transfer at which it ends. Returns `chain` itself if it does not end
        at a transfer.
        """
        near = self._transfer_of_hint.get(chain.annotation)
        if near is None or (key := _other_side(near)) in seen:
            return chain
        peer = near.node.attrs.peer.name
        far = self.parts[peer].transfers[key]
        value = far.node.operands[0] if key[0] == "transfer_send" else far.node.results[0]
        onward = [
            candidate for candidate in self.parts[peer].local_chains(value) if overlaps(candidate.axis, chain.axis)
        ]
        if not onward:
            return chain
        continuation = self.parts[peer].followed(onward[0], seen | {key})
        name = f"{self.parts[peer].name(value)} on @{peer}"
        tie = Tie(name, continuation.state, f"transfer {key[1]}", "", near.node.loc)
        return replace(chain, ties=(*chain.ties, tie, *continuation.ties), annotation=continuation.annotation)

    def local_chains(self, value: Value) -> list[Chain]:
        """Return the chains of a value, each only up to the border of this mesh."""
        return super().chains(value)


def _other_side(site: Site) -> Key:
    return BETWEEN_MESHES[BETWEEN_MESHES.index(site.node.op) - 1], site.node.attrs.channel
