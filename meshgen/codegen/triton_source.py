"""Generation of one readable, self-contained Triton module per kernel body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from meshgen.codegen.bounds.accesses import Access, Given, unproven
from meshgen.codegen.emit.conv import lower_convolutions
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.names import entry_name
from meshgen.codegen.emit.plan import KernelPlan
from meshgen.codegen.emit.segmented import Segments
from meshgen.codegen.emit.templates import plan_body
from meshgen.codegen.index_code import Statement
from meshgen.codegen.missing_kernels import missing_kernel_faults
from meshgen.codegen.roofline.kernel_time import device_of, kernel_bytes
from meshgen.cost_model.kernels import Device
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Graph, Node, Value
from meshgen.kernels.functions import FUNCTIONS
from meshgen.mesh import Mesh
from meshgen.ops.classes import MADE
from meshgen.ops.flops import graph_flops

_PARAMS_PER_LINE = 5  # number of parameters per line of the kernel's signature
# Fields of plan candidates that are not choices, but predictions or sizes of the body.
_NOT_CHOSEN = frozenset({"speed", "kept", "reduced"})


@dataclass(frozen=True)
class KernelSource:
    """The source of a kernel, and how to launch it.

    Attributes:
        text: the source of the Triton module; `entry` is the name of its kernel function.
        params: the arguments, in order: ("operand", index of the body's input), ("result", index of its output) or
            ("coordinate", mesh axes): the i32 index of the device in its group over these axes. Operands and results
            are pointers; all buffers are aligned to at least 16 bytes.
        grid: number of programs along each grid dim; a grid with a 0 is not launched.
        constants: compile-time parameters, after `params` in the signature.
        flops, bytes: arithmetic operations, and bytes of device memory traffic, of one launch on one device.
        code: the index code of the kernel, from which its accesses are proven in bounds.
        template: name of the template that generated it.
        tile: the chosen candidate of the kernel's plan; empty if the template has only one form.
        is_measured: whether a measurement found this tile to be the best.
    """

    text: str
    entry: str
    params: tuple[tuple[str, Any], ...]
    grid: tuple[int, int, int]
    constants: dict[str, Any]
    num_warps: int
    num_stages: int
    flops: float
    bytes: int
    template: str
    tile: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_measured: bool = False
    code: Sequence[Statement] = field(default=(), compare=False, repr=False)


def kernel_source(name: str, body: Graph, mesh: Mesh, target: str = "cuda:sm_90") -> KernelSource:
    """Generate the kernel of a body for the first architecture of `target`, with the tile predicted to be fastest.

    Raises:
        CodegenError: MG0301, for each op or type that kernels do not support.
    """
    return next(kernel_sources(name, body, mesh, target))


def kernel_sources(name: str, body: Graph, mesh: Mesh, target: str = "cuda:sm_90",
                   is_first: Callable[[Mapping[str, Any]], bool] = lambda tile: False) -> Iterator[KernelSource]:  # fmt: skip
    """Yield the source of a kernel for each candidate of its plan, generated on demand, in the order of predicted
    times.

    Args:
        is_first: whether a candidate with the given tile comes before all others.
    Raises:
        CodegenError: the same as `kernel_source`.
    """
    if faults := missing_kernel_faults([(body, 1)]):
        raise CodegenError(*faults)
    device = device_of(target)
    lowered = lower_convolutions(body)
    plan = plan_body(lowered, device, body.template)
    tiles = sorted(plan.candidates, key=lambda tile: not is_first(tile_of(tile)))
    for rank in range(max(1, len(tiles))):
        source = _source(name, body, lowered, mesh, replace(plan, candidates=tuple(tiles[rank:])), device)
        if source is not None:
            yield replace(source, tile=tile_of(tiles[rank]) if tiles else {})


def tile_of(candidate: Any) -> dict[str, Any]:
    """Return the choices of a plan candidate by field name, with lists for tuples as in JSON.

    A candidate is a dataclass or a named tuple. Segments are described by the tile of their GEMMs: without GEMMs, the
    dict is empty.
    """
    if isinstance(candidate, Segments):
        return {} if candidate.tile is None else tile_of(candidate.tile)
    fields: dict[str, Any] = candidate._asdict() if hasattr(candidate, "_asdict") else asdict(candidate)
    chosen = {name: value for name, value in fields.items() if name not in _NOT_CHOSEN}
    assert chosen, f"{type(candidate).__name__} chooses nothing"
    return {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}


def _source(
    name: str, body: Graph, lowered: Graph, mesh: Mesh, plan: KernelPlan, device: Device
) -> KernelSource | None:
    """Return the source for the first candidate of `plan`, or None if the template rejects this candidate."""
    entry = entry_name(name)
    if (written := _emit_in_bounds(entry, body, lowered, mesh, plan, device)) is None:
        return None
    evaluator, launch, text = written
    params: list[tuple[str, Any]] = [("operand", i) for i in range(len(body.inputs))]
    params += [("result", i) for i in range(len(body.outputs))]
    params += [("coordinate", axes) for axes in sorted(evaluator.coordinates)]
    return KernelSource(
        text, entry, tuple(params), launch.grid, dict(launch.constants), launch.num_warps, launch.num_stages,
        graph_flops(body), kernel_bytes(body), plan.template.name, code=evaluator.code,
    )  # fmt: skip


def _emit_in_bounds(
    entry: str, body: Graph, lowered: Graph, mesh: Mesh, plan: KernelPlan, device: Device
) -> tuple[Evaluator, Launch, str] | None:
    """Generate source whose loads and stores are proven in bounds.

    Accesses that cannot be proven get an explicit bounds mask.

    Args:
        body: the kernel body, whose name and values appear in the source.
        lowered: the lowered body, from which code is generated.
    Returns:
        The evaluator, the launch and the text, or None if the template rejects the plan's first candidate.
    """
    masked_accesses = frozenset[int]()
    while True:
        evaluator = Evaluator(lowered, mesh, masked_accesses)
        if (launch := plan.template.emit(evaluator, lowered, plan, device)) is None:
            return None
        text = _module(entry, body, evaluator, launch)
        unproven_accesses = unproven(evaluator.code, _given(body, evaluator, launch))
        if not unproven_accesses:
            return evaluator, launch, text
        if all(access.number in masked_accesses for access in unproven_accesses):
            raise CodegenError(_unproven_fault(body, unproven_accesses))
        masked_accesses |= {access.number for access in unproven_accesses}


def _given(body: Graph, evaluator: Evaluator, launch: Launch) -> Given:
    sizes = dict(zip(evaluator.pointers, (v.type.size for v in body.inputs), strict=True))
    sizes |= dict(zip(evaluator.results, (v.type.size for v in body.outputs), strict=True))
    counts = {name: evaluator.mesh.group_size(axes) for axes, name in evaluator.coordinates.items()}
    return Given(sizes, counts, launch.grid[0], launch.constants)


def _unproven_fault(body: Graph, accesses: Sequence[Access]) -> Diagnostic:
    return Diagnostic(
        "MG0301",
        f"kernel '{body.name}': no proof that it stays inside its operands and results: "
        + "; ".join(access.text for access in accesses),
        body.nodes[0].loc,
        hint="compile it with --target cpu: it runs on the reference device",
    )


def _module(entry: str, body: Graph, evaluator: Evaluator, launch: Launch) -> str:
    coordinates = [evaluator.coordinates[axes] for axes in sorted(evaluator.coordinates)]
    names = [*evaluator.pointers, *evaluator.results, *coordinates]
    names += [f"{name}: tl.constexpr" for name in launch.constants]
    helpers = "".join(f"\n{FUNCTIONS[name]}" for name in evaluator.helpers)
    helpers += "".join(f"\n\n{text}" for text in evaluator.functions.values())
    return (
        f'"""{entry}, generated by meshgen: {_ops(body.nodes)}."""\n\n'
        f"import triton\nimport triton.language as tl\n{helpers}\n\n"
        f"@triton.jit\n{_signature(entry, names)}\n{_docstring(body, evaluator)}\n" + "\n".join(evaluator.lines) + "\n"
    )


def _ops(nodes: Sequence[Node]) -> str:
    return ", ".join(dict.fromkeys(n.op for n in nodes if n.op not in MADE)) or "constants"


def _signature(entry: str, names: Sequence[str]) -> str:
    """Return the kernel's signature. Its number of lines does not depend on names, so equal kernels have equal line
    numbers.
    """
    if len(names) <= _PARAMS_PER_LINE:
        return f"def {entry}({', '.join(names)}):"
    rows = [
        f"    {', '.join(names[start : start + _PARAMS_PER_LINE])}," for start in range(0, len(names), _PARAMS_PER_LINE)
    ]
    return f"def {entry}(\n" + "\n".join(rows) + "\n):"


def _docstring(body: Graph, evaluator: Evaluator) -> str:
    """Return the docstring of the generated kernel, which lists the type of each pointer."""

    def entries(names: Sequence[str], values: Sequence[Value]) -> str:
        return ", ".join(f"{n.removesuffix('_ptr')} {v.type}" for n, v in zip(names, values, strict=True))

    reads = entries(evaluator.pointers, body.inputs) or "nothing"
    return f'    """{reads}\n    -> {entries(evaluator.results, body.outputs)}"""'
