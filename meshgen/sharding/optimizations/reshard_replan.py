"""A chain of reshards is replaced by the cheapest way from its first to its last layout."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module, Node, Value
from meshgen.ops.classes import RESHARDS, SHARDING_OPS
from meshgen.sharding.optimizations.rewrite import Walk, merged_notes, price_of, walk
from meshgen.sharding.reshard.plan import ReshardPlan, plan_reshard
from meshgen.sharding.reshard.problem import PICOSECONDS, Cost, cost_sum


@module_pass("reshard-replan", "materialize", "optimize", "partition", applies="unless dearer")
def reshard_replan(module: Module, context: Compilation) -> Module:
    """Before: `permute(all_gather(x))`, `all_slice(all_to_all(x))`, ...   After: the cheapest plan from x.

    Only if the shardings of both ends are known, and neither time nor bytes grow. Reshards of the chain with other
    uses stay, so dropping them would save nothing.
    """
    return walk(module, context, _replan, of=SHARDING_OPS)


def _replan(node: Node, walk: Walk) -> Sequence[Value] | None:
    if (target := node.result.sharding) is None:
        return None
    chain = [node]
    spent = _cost(node, walk)
    best: tuple[Cost, ReshardPlan, list[Node]] | None = None
    exclusive = True
    longest = DEFAULT.search.chain  # keeps the walk linear
    while (made := walk.producers.get(chain[-1].operands[0])) and made.op in SHARDING_OPS and len(chain) < longest:
        exclusive = exclusive and walk.single(made.result)
        spent = cost_sum(spent, _cost(made, walk)) if exclusive else spent
        chain.append(made)
        start = made.operands[0]
        if start.sharding is None:
            break
        plan = plan_reshard(start.type, start.sharding, target, walk.mesh)
        if plan.cost < spent and plan.ring_bytes <= spent[1] and (best is None or plan.cost < best[0]):
            best = plan.cost, plan, list(chain)
    return _write_plan(node, best[1], best[2], walk) if best else None


def _cost(node: Node, walk: Walk) -> Cost:
    found = price_of(node, walk.mesh)
    return round(found.seconds * PICOSECONDS), found.ring_bytes, int(node.op in RESHARDS), 1


def _write_plan(node: Node, plan: ReshardPlan, chain: list[Node], walk: Walk) -> Sequence[Value]:
    value = chain[-1].operands[0]
    for step in plan.steps:
        notes = merged_notes(chain[::-1], "a chain that was planned again")
        value = walk.emit(step.op, [value], step.attrs, node.result, step.sharding, loc=node.loc, notes=notes)
    return [value]
