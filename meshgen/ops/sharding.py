"""The records of annotations, collectives, device coordinates, transfers between meshes, and kernel launches."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes
from meshgen.ir.attributes.control import Kernel as KernelName
from meshgen.ir.attributes.sharding import (
    AllReduce,
    AllToAll,
    AlongDim,
    Annotate,
    Barrier,
    Broadcast,
    FetchRows,
    MaskPadding,
    OverAxes,
    PermutePairs,
    Recv,
    ReduceScatter,
    ReduceTo,
    Reshard,
    Rooted,
    Send,
    ShardingGroup,
    Shift,
    Transfer,
    UpdateHalo,
)
from meshgen.ir.group_calls import VARIADIC
from meshgen.ops.evaluate import elementwise as elements
from meshgen.ops.op import (
    LAYOUT,
    NO_ERROR_RULE,
    NO_KERNEL,
    NO_RULE,
    NOT_EVALUABLE,
    SOURCE,
    AtLeast,
    Kernel,
    Op,
    RuleOf,
    Trait,
    no_flops,
)
from meshgen.ops.rules import transfers as rules
from meshgen.ops.tolerance import elementwise as element_errors
from meshgen.ops.tolerance import movement as errors
from meshgen.ops.tolerance.tracked import Rule as ErrorRule
from meshgen.ops.triton.expressions import plain
from meshgen.ops.types import sharding as types
from meshgen.ops.types.site import Inference


def _annotation(name: str, infer: Inference, attributes: type[Attributes]) -> Op:
    """Return the record of an op that returns its operand and carries information for sharding propagation."""
    return Op(name=name, operands=1, types=infer, evaluate=elements.of_node(elements.same), error=element_errors.unchanged,
              rule=NO_RULE, kernel=NO_KERNEL, flops=no_flops, attributes=attributes, traits=frozenset((Trait.BROADCASTS,)))  # fmt: skip


def _collective(name: str, infer: Inference, attributes: type[Attributes], *traits: Trait, kernel: Kernel = NO_KERNEL,
                error: ErrorRule | None = NO_ERROR_RULE) -> Op:  # fmt: skip
    """Return the record of a collective. A variadic op may be a group call with several operands.

    `ccl/simulated.py` defines the semantics, and `ccl/lower.py` the implementation.
    """
    operands, results = (AtLeast(1), None) if name in VARIADIC else (1, 1)
    return Op(name=name, operands=operands, results=results, types=infer, evaluate=NOT_EVALUABLE, error=error, rule=NO_RULE,
              kernel=kernel, flops=no_flops, attributes=attributes, traits=frozenset((Trait.COLLECTIVE, *traits)))  # fmt: skip


def _local(name: str, kernel: Kernel, attributes: type[Attributes], *traits: Trait) -> Op:
    """Return the record of a collective that does not communicate."""
    return _collective(name, types.collective, attributes, Trait.LOCAL, Trait.OF_RANK, Trait.IN_BODIES, *traits, kernel=kernel,
                       error=errors.rank_dependent_move)  # fmt: skip


def _transfer(name: str, operands: AtLeast, rule: RuleOf) -> Op:
    return Op(name=name, operands=operands, types=types.between, evaluate=NOT_EVALUABLE, error=NO_ERROR_RULE, rule=rule, kernel=NO_KERNEL,
              flops=no_flops, attributes=Transfer, traits=frozenset((Trait.AWAITED,)))  # fmt: skip


ANNOTATIONS = (
    _annotation("annotate", types.annotate, Annotate),
    _annotation("sharding_group", types.same, ShardingGroup),
    _annotation("propagation_barrier", types.same, Barrier),
)

COLLECTIVES = (
    _collective("all_reduce", types.collective, AllReduce, Trait.IN_BODIES, Trait.REDUCES, Trait.OVERWRITES),
    _collective("all_gather", types.collective, AlongDim, Trait.IN_BODIES),
    _collective("reduce_scatter", types.collective, ReduceScatter, Trait.IN_BODIES, Trait.REDUCES),
    _collective("all_to_all", types.collective, AllToAll, Trait.IN_BODIES),
    _collective("broadcast", types.collective, Broadcast, Trait.IN_BODIES),
    _collective("gather_to", types.collective, Rooted),
    _collective("reduce_to", types.collective, ReduceTo, Trait.REDUCES),
    _collective("scatter_from", types.collective, Rooted),
    _collective("send", types.collective, Send, Trait.AWAITED),
    _collective("recv", types.collective, Recv, Trait.AWAITED),
    _collective("shift", types.shift, Shift, Trait.IN_BODIES),
    _collective("permute_pairs", types.permute_pairs, PermutePairs, Trait.IN_BODIES),
    _collective("fetch_rows", types.fetch_rows, FetchRows),
    _local("all_slice", LAYOUT, AlongDim, Trait.LEAVES, Trait.TAKES),
    _local("to_partial", Kernel("expression", plain("{0}")), AllReduce),
)

RESHARDS = (  # Changes of a tensor's sharding from `source` to `target`.
    _collective("permute", types.collective, Reshard, Trait.RESHARD),
    _collective("retile", types.collective, Reshard, Trait.RESHARD),
    _collective("update_halo", types.update_halo, UpdateHalo, Trait.RESHARD),
)

TRANSFERS = (
    _transfer("transfer_send", AtLeast(1), rules.transfer_send),
    _transfer("transfer_recv", AtLeast(0), rules.transfer_recv),
)


def _of_rank(
    name: str, operands: int, infer: Inference, kernel: Kernel, error: ErrorRule | None, attributes: type[Attributes]
) -> Op:
    """Return the record of an op that depends on the device's coordinate. `runtime/simulate.py` evaluates it."""
    return Op(name=name, operands=operands, types=infer, evaluate=NOT_EVALUABLE, error=error, rule=NO_RULE, kernel=kernel, flops=no_flops,
              attributes=attributes, traits=frozenset((Trait.OF_RANK,)))  # fmt: skip


OF_RANKS = (
    _of_rank("process_index", 0, types.process_index, SOURCE, NO_ERROR_RULE, OverAxes),
    _of_rank("mask_padding", 1, types.mask_padding, LAYOUT, errors.rank_dependent_move, MaskPadding),
)

KERNEL = Op(name="kernel", operands=AtLeast(0), types=types.kernel, evaluate=NOT_EVALUABLE, error=NO_ERROR_RULE, rule=NO_RULE,
            kernel=NO_KERNEL, flops=no_flops, results=None, attributes=KernelName)  # fmt: skip

OPS = (*ANNOTATIONS, *COLLECTIVES, *RESHARDS, *TRANSFERS, *OF_RANKS, KERNEL)
