"""Annotations, collectives, coordinates of devices, transfers between meshes, and kernels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from meshgen.ir.group_calls import VARIADIC
from meshgen.ops.evaluate import elementwise as elements
from meshgen.ops.op import (
    ANY_ERROR,
    LAYOUT,
    NO_KERNEL,
    NO_MEANING,
    NO_RULE,
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
from meshgen.ops.tolerance.values import Rule as ErrorRule
from meshgen.ops.triton.expressions import plain
from meshgen.ops.types import sharding as types
from meshgen.ops.types.site import Inference


def _annotation(name: str, infer: Inference, **attributes: str) -> Op:
    """An identity with information for propagation."""
    return Op(name=name, operands=1, types=infer, evaluate=elements.of_node(elements.same), error=element_errors.unchanged,
              rule=NO_RULE, kernel=NO_KERNEL, flops=no_flops, attributes=attributes, traits=frozenset((Trait.BROADCASTS,)))  # fmt: skip


def _collective(name: str, infer: Inference, attributes: dict[str, str], *traits: Trait, kernel: Kernel = NO_KERNEL,
                error: ErrorRule | None = ANY_ERROR, optional: Mapping[str, str] = MappingProxyType({})) -> Op:  # fmt: skip
    """What it means is in `ccl/simulated.py`, how it is done in `ccl/lower.py`. Group calls have several operands."""
    operands, results = (AtLeast(1), None) if name in VARIADIC else (1, 1)
    return Op(name=name, operands=operands, results=results, types=infer, evaluate=NO_MEANING, error=error, rule=NO_RULE,
              kernel=kernel, flops=no_flops, attributes=attributes, optional=optional, traits=frozenset((Trait.COLLECTIVE, *traits)))  # fmt: skip


def _over_axes(name: str, infer: Inference, *traits: Trait, optional: Mapping[str, str] = MappingProxyType({}),
               **attributes: str) -> Op:  # fmt: skip
    return _collective(name, infer, {"axes": "names", **attributes}, *traits, optional=optional)


def _local(name: str, kernel: Kernel, *traits: Trait, **attributes: str) -> Op:
    """A collective without communication."""
    return _collective(name, types.collective, {"axes": "names", **attributes}, Trait.LOCAL, Trait.OF_RANK, Trait.IN_BODIES, *traits,
                       kernel=kernel, error=errors.on_rank)  # fmt: skip


def _transfer(name: str, operands: AtLeast, rule: RuleOf) -> Op:
    return Op(name=name, operands=operands, types=types.between, evaluate=NO_MEANING, error=ANY_ERROR, rule=rule, kernel=NO_KERNEL,
              flops=no_flops, attributes={"channel": "int", "peer": "mesh", "shape": "ints"},
              traits=frozenset((Trait.AWAITED,)))  # fmt: skip


ANNOTATIONS = (
    _annotation("annotate", types.annotate, sharding="any"),
    _annotation("sharding_group", types.same, group="int"),
    _annotation("propagation_barrier", types.same, direction="str"),
)

COLLECTIVES = (
    _over_axes("all_reduce", types.collective, Trait.IN_BODIES, Trait.REDUCES, kind="str"),
    _over_axes("all_gather", types.collective, Trait.IN_BODIES, dim="int"),
    _over_axes("reduce_scatter", types.collective, Trait.IN_BODIES, Trait.REDUCES, dim="int", kind="str"),
    _over_axes("all_to_all", types.collective, Trait.IN_BODIES, split_dim="int", concat_dim="int"),
    _over_axes("broadcast", types.collective, Trait.IN_BODIES, root="place"),
    _over_axes("gather_to", types.collective, dim="int", root="place"),
    _over_axes("reduce_to", types.collective, Trait.REDUCES, kind="str", root="place"),
    _over_axes("scatter_from", types.collective, dim="int", root="place"),
    _over_axes("send", types.collective, Trait.AWAITED, destination="place"),
    _over_axes("recv", types.collective, Trait.AWAITED, optional={"source": "place", "destination": "place"}),
    _over_axes("shift", types.shift, Trait.IN_BODIES, optional={"rotate": "flag"}, shift_axis="str", offset="int"),
    _over_axes("permute_pairs", types.permute_pairs, Trait.IN_BODIES, pairs="any"),
    _over_axes("fetch_rows", types.fetch_rows, optional={"parts": "ints", "wrap": "flag", "divisor": "int"}, dim="int", base="int",
               step="int", limit="int"),
    _local("all_slice", LAYOUT, Trait.LEAVES, Trait.TAKES, dim="int"),
    _local("to_partial", Kernel("expression", plain("{0}")), kind="str"),
)  # fmt: skip

_SHARDINGS = {"source": "sharding", "target": "sharding", "shape": "ints"}
RESHARDS = (  # of a tensor from one sharding to another
    _collective("permute", types.collective, _SHARDINGS, Trait.RESHARD),
    _collective("retile", types.collective, _SHARDINGS, Trait.RESHARD),
    _collective("update_halo", types.update_halo, {"sharding": "sharding", "shape": "ints"}, Trait.RESHARD),
)

TRANSFERS = (
    _transfer("transfer_send", AtLeast(1), rules.transfer_send),
    _transfer("transfer_recv", AtLeast(0), rules.transfer_recv),
)


def _of_rank(
    name: str, operands: int, infer: Inference, kernel: Kernel, error: ErrorRule | None, **attributes: Any
) -> Op:
    """A coordinate of the device; `runtime/simulate.py` has its meaning on a rank."""
    return Op(name=name, operands=operands, types=infer, evaluate=NO_MEANING, error=error, rule=NO_RULE, kernel=kernel, flops=no_flops,
              attributes={"axes": "names", **attributes}, traits=frozenset((Trait.OF_RANK,)))  # fmt: skip


OF_RANKS = (
    _of_rank("process_index", 0, types.process_index, SOURCE, ANY_ERROR),
    _of_rank("mask_padding", 1, types.mask_padding, LAYOUT, errors.on_rank, dim="int", size="int", fill="number"),
)

KERNEL = Op(name="kernel", operands=AtLeast(0), types=types.kernel, evaluate=NO_MEANING, error=ANY_ERROR, rule=NO_RULE,
            kernel=NO_KERNEL, flops=no_flops, results=None, attributes={"kernel": "str"})  # fmt: skip

OPS = (*ANNOTATIONS, *COLLECTIVES, *RESHARDS, *TRANSFERS, *OF_RANKS, KERNEL)
