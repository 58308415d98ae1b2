"""Kernels of a transformer block as a person would write them: few, each row read once, everything cheap in the dots."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from meshgen import api
from meshgen.codegen.building.build import build_kernels, request_of
from meshgen.codegen.sectors import efficiency, kernel_traffic
from meshgen.compiled.executable import Executable
from meshgen.ops.factors import Factors
from meshgen.ops.segments import segments
from tests.acceptance.cases import ROOT, needs_cases, realistic

EXAMPLE = ROOT / "examples" / "transformer_block.mlir"
MAX_LAUNCHES = 8
PROGRAMS = [
    pytest.param(EXAMPLE, id="example"),
    pytest.param(realistic("block_dp_tp_bf16"), id="block_dp_tp_bf16", marks=needs_cases),
]


@dataclass(frozen=True)
class Kernel:
    """A generated kernel: its source, the ops of its body, its segments, and its loads and stores of whole rows (`row * N + col`)."""

    text: str
    ops: tuple[str, ...]
    segments: int
    row_loads: tuple[str, ...]
    row_stores: tuple[str, ...]


def kernels(executable: Executable) -> list[Kernel]:
    """The kernel of every launch, in order."""
    found: list[Kernel] = []
    for item in executable.plan.items:
        if not item.is_collective:
            text = executable.sources[item.kernel].text
            body = executable.plan.kernels[item.kernel]
            ops = tuple(node.op for node in body.nodes)
            loads = tuple(re.findall(r"tl\.load\((\w+) \+ row\b", text))
            stores = tuple(re.findall(r"tl\.store\((\w+) \+ row\b", text))
            found.append(Kernel(text, ops, len(segments(body)), loads, stores))
    return found


@pytest.fixture(params=PROGRAMS, scope="module")
def executable(request: pytest.FixtureRequest) -> Executable:
    return api.plan(request.param, target="cuda:sm_90,sm_80")


def test_a_block_is_few_kernels(executable: Executable) -> None:
    assert 0 < executable.cost.kernels <= MAX_LAUNCHES
    assert executable.comms.counts == {"all_reduce": 2}


def test_no_op_is_outside_of_a_kernel_or_a_collective(executable: Executable) -> None:
    ops = {node.op for node in executable.fused.graph.nodes}
    assert ops <= {"kernel", "view", "all_reduce"}


def test_a_normalization_is_one_kernel_that_reads_its_row_once(executable: Executable) -> None:
    """Two layer norms: each its mean, its variance and what follows in one kernel."""
    norms = [k for k in kernels(executable) if "rsqrt" in k.ops]
    assert len(norms) == 2
    for norm in norms:
        assert norm.ops.count("reduce") == 2
        assert len(norm.row_loads) == len(set(norm.row_loads)) and len(norm.row_stores) == len(set(norm.row_stores))
    first, second = norms
    assert (len(first.row_loads), len(first.row_stores)) == (1, 1)
    # The second normalizes a sum: it reads what is added, and writes the sum for the next residual.
    assert (len(second.row_loads), len(second.row_stores)) == (2, 2)


def test_attention_is_one_kernel_that_writes_its_result_only(executable: Executable) -> None:
    """Both products and the softmax between them: nothing of the size of the scores is read or written."""
    (attention,) = (k for k in kernels(executable) if "attention" in k.ops)
    assert attention.text.count("tl.store(") == 1
    bodies = executable.plan.kernels.values()
    (node,) = (node for body in bodies for node in body.nodes if node.op == "attention")
    factors = Factors.of(node)
    scores = sorted(factors.sizes[f] for f in (*factors.rows, *factors.keys))
    assert not any(sorted(v.type.sizes) == scores for body in bodies for v in (*body.inputs, *body.outputs))


def test_reductions_keep_their_row_in_registers(executable: Executable) -> None:
    """No loop over a row, so that what was loaded once is there for all passes over it."""
    for kernel in kernels(executable):
        if "reduce" in kernel.ops and "dot_general" not in kernel.ops:
            assert "for " not in re.sub(r'"""(.|\n)*?"""', "", kernel.text)


def test_cheap_ops_are_in_the_epilogues_of_dots(executable: Executable) -> None:
    """Beside dots and reductions there is one kernel: the residual sum after the last all_reduce."""
    found = kernels(executable)
    plain = [k for k in found if not {"dot_general", "reduce", "attention"} & {*k.ops}]
    assert len(plain) == 1
    assert set(plain[0].ops) <= {"add", "convert", "broadcast_in_dim", "reshape"}
    gelu = [k for k in found if "tanh" in k.ops]
    assert len(gelu) == 1 and "dot_general" in gelu[0].ops
    assert gelu[0].ops.count("add") >= 2  # the bias, and the sum within GELU


def test_dots_write_their_product_once(executable: Executable) -> None:
    """In the type of the next reader: no kernel between them casts."""
    for kernel in kernels(executable):
        if "dot_general" in kernel.ops:
            assert kernel.text.count("tl.dot(") >= 1
            assert 1 <= kernel.text.count("tl.store(") <= kernel.segments  # those of equal types have one
            assert ".to(tl.bfloat16))" in kernel.text


def test_kernels_use_the_memory_sectors_that_they_move(executable: Executable) -> None:
    """Weighted by bytes: rows of tiles are whole sectors, whatever is transposed on the way."""
    bodies, counts = executable.plan.kernels, executable.plan.launch_counts()
    moved = [
        replace(each, wanted=each.wanted * counts[name], moved=each.moved * counts[name])
        for name, source in executable.sources.items()
        for each in kernel_traffic(source, bodies[name])
    ]
    assert all(each.moved > 0 for each in moved) and efficiency(moved) > 0.9


def build(executable: Executable) -> None:
    """Build all kernels for both architectures, and require that no register spills."""
    requests = [request_of(name, s, executable.plan.kernels[name]) for name, s in executable.sources.items()]
    built = build_kernels(requests, ["sm_80", "sm_90"])
    assert set(built) == {(name, arch) for name in executable.sources for arch in ("sm_80", "sm_90")}
    spilling = {key: kernel.spill_bytes for key, kernel in built.items() if kernel.spill_bytes}
    assert spilling == {}
    assert all(kernel.cubin.startswith(b"\x7fELF") for kernel in built.values())


def test_binaries_do_not_spill() -> None:
    pytest.importorskip("triton")
    build(api.plan(EXAMPLE, target="cuda:sm_90,sm_80"))
