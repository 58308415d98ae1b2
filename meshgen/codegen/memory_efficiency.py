"""Memory efficiency of a kernel: the share of the transferred bytes that its loads and stores use.

The share is computed from the kernel's index code.

    tl.load(x_ptr + i)           f32, i = 0 .. 1023        128 sectors of 32 bytes, all used       1.0
    tl.load(x_ptr + i * 4)                                1024 sectors, 4 bytes of each used       0.125

Memory is transferred in sectors. All lanes of a program are evaluated together, for a few programs and loop iterations
from the first to the last. An element that several lanes access counts once, because a cache serves it. If data decides
an address, all lanes are assumed to get the same data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.bounds.accesses import Access, Given, accesses
from meshgen.codegen.bounds.arithmetic import Arithmetic
from meshgen.codegen.bounds.proofs import Question, all_hold, between, expanded_question, values_of
from meshgen.codegen.bounds.values import FAR, LANE, Exact, Need
from meshgen.codegen.building.build import parameters
from meshgen.codegen.expr import Var
from meshgen.codegen.index_code import Statement
from meshgen.codegen.triton_source import KernelSource
from meshgen.ir.graph import Graph

# bytes of a sector; the L2 cache of an NVIDIA GPU transfers at least this much (Nsight Compute, "Memory Tables")
SECTOR = 32
_SAMPLES = 3  # number of sampled programs and of sampled loop iterations (chosen: the first, the middle and the last)
_MAX_LANES = 2**18  # Largest number of lanes of a program that is evaluated (chosen: larger tiles take too long).


@dataclass(frozen=True)
class Traffic:
    """The memory traffic of one load or store in a launch.

    Attributes:
        text: source of the access.
        wanted: bytes of the distinct elements that it accesses.
        moved: bytes of the sectors that contain these elements.
    """

    text: str
    wanted: float
    moved: float

    @property
    def efficiency(self) -> float:
        """Return the fraction of the moved bytes that the kernel uses, 0 to 1."""
        return self.wanted / self.moved if self.moved else 1.0


def efficiency(measured: Iterable[Traffic]) -> float:
    """Return the fraction of all bytes moved by the accesses `measured` that the kernel uses, 0 to 1."""
    traffics = list(measured)
    return Traffic("", sum(access.wanted for access in traffics), sum(access.moved for access in traffics)).efficiency


def kernel_traffic(source: KernelSource, body: Graph) -> list[Traffic]:
    """Return the traffic of each load and store of a generated kernel in one launch, on a mesh of one device."""
    values = {"operand": body.inputs, "result": body.outputs}
    params_by_name = list(zip(parameters(source.text, source.entry), source.params, strict=False))
    types = {name: values[kind][index].type for name, (kind, index) in params_by_name if kind in values}
    counts = {name: 1 for name, (kind, _) in params_by_name if kind == "coordinate"}
    constants = {name: value for name, value in source.constants.items() if isinstance(value, int)}
    setting = Given({name: kind.size for name, kind in types.items()}, counts, source.grid[0], constants)
    return traffic(source.code, setting, {n: kind.nbytes / max(1, kind.size) for n, kind in types.items()})


def traffic(code: Sequence[Statement], given: Given, widths: Mapping[str, float]) -> list[Traffic]:
    """Return the traffic of each load and store of a kernel in one launch, in the order of the source.

    Args:
        widths: bytes of an element of each pointer parameter.
    """
    touched, arithmetic = accesses(code, given)
    return [_traffic(access, arithmetic, given, widths) for access in touched]


def _traffic(access: Access, arithmetic: Arithmetic, given: Given, widths: Mapping[str, float]) -> Traffic:
    if access.question is None:
        return Traffic(access.text, 0.0, 0.0)
    question = expanded_question(access.question, arithmetic.definitions)
    width = max(widths[name] for name in access.names)
    counted = [_counted(question, table, width) for table in _tables(question, arithmetic)]
    repetitions = access.trips * given.programs / max(1, len(counted))
    wanted, moved = (repetitions * sum(pair[side] for pair in counted) for side in (0, 1))
    return Traffic(access.text, wanted, moved)


def _tables(question: Question, arithmetic: Arithmetic) -> Iterator[Mapping[Var, Exact]]:
    """Yield values for the variables of an access: all lanes, in a few programs and loop iterations."""
    exprs = [question.offset, *(fact.expr for fact in question.facts)]
    exprs += [need.expr for fact in question.facts for need in fact.needs]
    leaves = list(dict.fromkeys(v for e in exprs for v in ex.variables(e)))
    lanes = [v for v in leaves if v.text.startswith(LANE)]
    if math.prod(v.high - v.low + 1 for v in lanes) > _MAX_LANES:
        return
    axes = np.ogrid[tuple(slice(v.low, v.high + 1) for v in lanes)] if lanes else []
    table = dict(zip(lanes, (np.asarray(axis, np.int64) for axis in axes), strict=True))
    for sample in range(_SAMPLES):
        same = {v: np.asarray(_sampled(v, sample, arithmetic), np.int64) for v in leaves if v not in table}
        yield {**table, **same}


def _sampled(var: Var, sample: int, arithmetic: Arithmetic) -> int:
    """Return the first, middle or last value of a variable, for sample 0, 1 or 2."""
    if (exact := arithmetic.exact.get(var)) is not None:
        return int(exact[(len(exact) - 1) * sample // (_SAMPLES - 1)])
    low, high = max(var.low, 0), min(var.high, 2**31 - 1)
    return low + (high - low) * sample // (_SAMPLES - 1)


def _counted(question: Question, table: Mapping[Var, Exact], width: float) -> tuple[float, float]:
    """Return the bytes of the distinct elements that the lanes access, and of the sectors that contain them."""
    offset = values_of(question.offset, table)
    lanes = between(Need(question.offset, 0, FAR), table)
    for fact in question.facts:
        lanes = lanes & (between(Need(fact.expr, fact.low, fact.high), table) | ~all_hold(fact.needs, table))
    offset, lanes = np.broadcast_arrays(offset, lanes)
    elements = np.unique(offset[lanes])
    first, last = (elements * width) // SECTOR, ((elements + 1) * width - 1) // SECTOR
    return float(elements.size * width), float(np.unique(np.concatenate([first, last])).size * SECTOR)
