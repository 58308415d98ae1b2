"""One readable, self-contained Triton module per kernel body."""

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
from meshgen.codegen.missing_kernels import lacking_faults
from meshgen.codegen.roofline.kernel_time import device_of, kernel_bytes
from meshgen.cost_model.kernels import Device
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Graph, Node, Value
from meshgen.kernels.functions import FUNCTIONS
from meshgen.mesh import Mesh
from meshgen.ops.classes import MADE
from meshgen.ops.flops import graph_flops

_IN_A_ROW = 5  # parameters of a line of source
_NOT_CHOSEN = frozenset({"speed", "kept", "reduced"})  # fields of candidates: a prediction, and sizes of the body


@dataclass(frozen=True)
class KernelSource:
    """A kernel as source, and how to launch it.

    Attributes:
        text: the module; `entry` is its kernel function.
        params: what to pass, in order: ("operand", number of the body's input), ("result", number of its
            output) or ("coordinate", mesh axes): the i32 index of the device in its group over them.
            Operands and results are pointers; all buffers are aligned to at least 16 bytes.
        grid: number of programs; a grid with a 0 is not launched.
        constants: compile-time parameters, after `params` in the signature.
        flops, bytes: arithmetic operations and device memory traffic of one launch.
        code: the index code of the kernel, with which its accesses are proven.
        template: name of the template that it is made from; tile: the candidate of its plan, empty where all kernels have one form.
        is_measured: whether the tile was measured to be the best.
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
    """Generate the kernel of a body for the target's (first) architecture, with the tile that is predicted to be best.

    Raises:
        CodegenError: MG0301, for every op or type that no kernel can be generated for.
    """
    return next(kernel_sources(name, body, mesh, target))


def kernel_sources(name: str, body: Graph, mesh: Mesh, target: str = "cuda:sm_90",
                   is_first: Callable[[Mapping[str, Any]], bool] = lambda tile: False) -> Iterator[KernelSource]:  # fmt: skip
    """Generate the kernel with each candidate of its plan on demand, in the order of their predicted times.

    Args:
        is_first: whether a candidate with this tile comes before all others.
    Raises:
        CodegenError: as `kernel_source`.
    """
    if faults := lacking_faults([(body, 1)]):
        raise CodegenError(*faults)
    device = device_of(target)
    lowered = lower_convolutions(body)
    plan = plan_body(lowered, device, body.template)
    tiles = sorted(plan.candidates, key=lambda tile: not is_first(tile_of(tile)))
    for number in range(max(1, len(tiles))):
        source = _source(name, body, lowered, mesh, replace(plan, candidates=tuple(tiles[number:])), device)
        if source is not None:
            yield replace(source, tile=tile_of(tiles[number]) if tiles else {})


def tile_of(candidate: Any) -> dict[str, Any]:
    """Return what a candidate of a plan chooses, by the names of its fields, with lists for tuples as JSON has them.

    A candidate is a dataclass or a named tuple. Segments are described by the tile of their products.

    Returns:
        An empty dict for segments without products.
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
    """The source of the first candidate of a plan; None if that candidate is of no use."""
    entry = entry_name(name)
    if (written := _emit_inside(entry, body, lowered, mesh, plan, device)) is None:
        return None
    evaluator, launch, text = written
    params: list[tuple[str, Any]] = [("operand", i) for i in range(len(body.inputs))]
    params += [("result", i) for i in range(len(body.outputs))]
    params += [("coordinate", axes) for axes in sorted(evaluator.coordinates)]
    return KernelSource(
        text, entry, tuple(params), launch.grid, dict(launch.constants), launch.num_warps, launch.num_stages,
        graph_flops(body), kernel_bytes(body), plan.template.name, code=evaluator.code,
    )  # fmt: skip


def _emit_inside(
    entry: str, body: Graph, lowered: Graph, mesh: Mesh, plan: KernelPlan, device: Device
) -> tuple[Evaluator, Launch, str] | None:
    """Source whose loads and stores are proven to stay inside: those that are not as they are get a mask that says so.

    None if the first candidate of the plan is of no use. `lowered` is what is generated, `body` what it is called.
    """
    outside = frozenset[int]()
    while True:
        evaluator = Evaluator(lowered, mesh, outside)
        if (launch := plan.template.emit(evaluator, lowered, plan, device)) is None:
            return None
        text = _module(entry, body, evaluator, launch)
        found = unproven(evaluator.code, _given(body, evaluator, launch))
        if not found:
            return evaluator, launch, text
        if all(access.number in outside for access in found):
            raise CodegenError(_not_inside(body, found))
        outside |= {access.number for access in found}


def _given(body: Graph, evaluator: Evaluator, launch: Launch) -> Given:
    sizes = dict(zip(evaluator.pointers, (v.type.size for v in body.inputs), strict=True))
    sizes |= dict(zip(evaluator.results, (v.type.size for v in body.outputs), strict=True))
    counts = {name: evaluator.mesh.group_size(axes) for axes, name in evaluator.coordinates.items()}
    return Given(sizes, counts, launch.grid[0], launch.constants)


def _not_inside(body: Graph, found: Sequence[Access]) -> Diagnostic:
    return Diagnostic(
        "MG0301",
        f"kernel '{body.name}': no proof that it stays inside its operands and results: "
        + "; ".join(access.text for access in found),
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
    """As many lines for names of any length: lines of equal kernels have equal numbers."""
    if len(names) <= _IN_A_ROW:
        return f"def {entry}({', '.join(names)}):"
    rows = [f"    {', '.join(names[start : start + _IN_A_ROW])}," for start in range(0, len(names), _IN_A_ROW)]
    return f"def {entry}(\n" + "\n".join(rows) + "\n):"


def _docstring(body: Graph, evaluator: Evaluator) -> str:
    """The body in a few lines: what each pointer holds, and the work."""

    def entries(names: Sequence[str], values: Sequence[Value]) -> str:
        return ", ".join(f"{n.removesuffix('_ptr')} {v.type}" for n, v in zip(names, values, strict=True))

    reads = entries(evaluator.pointers, body.inputs) or "nothing"
    return f'    """{reads}\n    -> {entries(evaluator.results, body.outputs)}"""'
