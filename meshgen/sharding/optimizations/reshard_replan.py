"""Replace a chain of reshards by the cheapest plan from the first sharding of the chain to the last one.

    before   %1 = all_gather %x   %2 = permute %1
    after    %2 = all_to_all %x      if this plan is the cheapest

Both end shardings must be known, and neither time nor bytes may grow.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module, Node, Value
from meshgen.ops.classes import RESHARDS, SHARDING_OPS
from meshgen.sharding.optimizations.walk import Walk, merged_notes, price_of, walk
from meshgen.sharding.reshard.plan import ReshardPlan, plan_reshard
from meshgen.sharding.reshard.problem import PICOSECONDS, Cost, cost_sum


@module_pass("reshard-replan", "materialize", "optimize", "partition", applies="unless more expensive")
def reshard_replan(module: Module, context: Compilation) -> Module:
    """Return the module with replanned chains of reshards.

    If a reshard inside the chain has other uses, it remains, so its cost does not count as saved.
    """
    return walk(module, context, _replan, of=SHARDING_OPS)


def _replan(node: Node, walk: Walk) -> Sequence[Value] | None:
    if (target := node.result.sharding) is None:
        return None
    chain = [node]
    saved = _cost(node, walk)
    best: tuple[Cost, ReshardPlan, list[Node]] | None = None
    exclusive = True
    longest = DEFAULT.search.chain  # limits the length of a chain, so that the walk takes linear time
    while (
        (reshard := walk.producers.get(chain[-1].operands[0])) and reshard.op in SHARDING_OPS and len(chain) < longest
    ):
        exclusive = exclusive and walk.single(reshard.result)
        saved = cost_sum(saved, _cost(reshard, walk)) if exclusive else saved
        chain.append(reshard)
        start = reshard.operands[0]
        if start.sharding is None:
            break
        plan = plan_reshard(start.type, start.sharding, target, walk.mesh)
        if plan.cost < saved and plan.ring_bytes <= saved[1] and (best is None or plan.cost < best[0]):
            best = plan.cost, plan, list(chain)
    return _write_plan(node, best[1], best[2], walk) if best else None


def _cost(node: Node, walk: Walk) -> Cost:
    price = price_of(node, walk.mesh)
    return round(price.seconds * PICOSECONDS), price.ring_bytes, int(node.op in RESHARDS), 1


def _write_plan(node: Node, plan: ReshardPlan, chain: list[Node], walk: Walk) -> Sequence[Value]:
    value = chain[-1].operands[0]
    for step in plan.steps:
        notes = merged_notes(chain[::-1], "a chain of reshards that was replanned")
        value = walk.emit(step.op, [value], step.attrs, node.result, step.sharding, loc=node.loc, notes=notes)
    return [value]
