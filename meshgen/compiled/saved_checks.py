"""What a saved program must be, beyond the types of its records, before reports read it: the member of a module is untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meshgen.compiled.saved import SavedProgram
from meshgen.errors import Diagnostic, ProgramError, ShardingError
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.ir.definitions import undefined_in
from meshgen.ir.graph import DTYPES, Graph, Module, Value
from meshgen.ir.predicates import is_kernel
from meshgen.ir.regions import all_nodes
from meshgen.pipeline import STAGES, program_faults
from meshgen.runtime.validation.bodies import body_fault
from meshgen.sharding.propagate import Propagation
from meshgen.sharding.propagation.solve import Solved
from meshgen.spec import Sharding


def require_sound(program: SavedProgram, part_count: int) -> None:
    """Check the stages of each mesh and the decisions of propagation.

    Raises ValueError or a MeshgenError with the first fault.
    """
    if len(program.parts) != part_count:
        raise ValueError(f"it has {len(program.parts)} parts, not {part_count}")
    for stages in (program.stages, *program.parts):
        _require_stages(stages)
    for stage, decided in program.decisions.items():
        for _, decision in decided:
            if stage != "propagate":
                _require(isinstance(decision, tuple) and all(isinstance(each, ChunkDecision) for each in decision))
            else:
                _require(isinstance(decision, Propagation))
                _require_labels(decision.solved)


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("its decisions do not fit the program")


def _require_stages(stages: Mapping[str, Module]) -> None:
    if "fuse" not in stages or not {*stages} <= {"import", *STAGES}:
        raise ValueError("its stages are not those of the compiler")
    for stage in stages.values():
        for module in stage.parts or (stage,):
            _require_module(module)


def _require_module(module: Module) -> None:
    values = [value for graph in (module.graph, *module.kernels.values()) for value in _values(graph)]
    if any(value.type.dtype not in DTYPES for value in values):
        raise ValueError("an element type is unknown")
    ends = (module.graph.inputs, module.in_annotations), (module.graph.outputs, module.out_annotations)
    is_annotated = module.stage in ("import", "propagate")
    if any(len(notes) != len(values) for values, notes in ends if is_annotated or notes):
        raise ValueError("its annotations are not those of its inputs and outputs")
    meshes = {mesh.name: mesh for mesh in module.meshes}
    for value, sharding in _sharded(module, values):
        sizes = [None] * value.type.rank  # those of a tile, which offsets of the whole value exceed
        if faults := sharding.faults(sizes, meshes.get(sharding.mesh, module.mesh)):
            raise ShardingError(*faults)
    if faults := undefined_in(module) or program_faults(module):
        raise ProgramError(*faults)
    for body in module.kernels.values():
        if fault := body_fault(body, module.mesh):
            raise ValueError(fault)
    for node in filter(is_kernel, all_nodes(module.graph)):
        body = module.kernels.get(node.attrs.kernel)
        if body is None or len(body.inputs) != len(node.operands) or len(body.outputs) != len(node.results):
            raise ProgramError(Diagnostic("MG0502", "a launch does not fit its kernel", node.loc))


def _values(graph: Graph) -> Iterable[Value]:
    yield from graph.values()
    for node in all_nodes(graph):
        yield from (*node.operands, *node.results)


def _sharded(module: Module, values: Iterable[Value]) -> Iterable[tuple[Value, Sharding]]:
    yield from ((value, value.sharding) for value in values if value.sharding is not None)
    for ends, shardings in (
        (module.graph.inputs, module.in_shardings),
        (module.graph.outputs, module.out_shardings),
    ):
        if shardings:
            yield from zip(ends, shardings, strict=True)


def _require_labels(solved: Solved) -> None:
    """Check that rules and labels have a part for each operand and result of their sites."""
    counts = [(len(site.node.operands), len(site.node.results)) for site in solved.sites]
    for site, sides in zip(solved.sites, counts, strict=True):
        rule = site.rule
        factors = [factor for dims in (*rule.operands, *rule.results) for part in dims for factor in part]
        _require((len(rule.operands), len(rule.results)) == sides)
        _require(all(0 <= factor < len(rule.factors) for factor in factors))
    for decision in solved.decisions.values():
        _require(len(decision.solution.labels) == len(decision.problem.labels) == len(counts))
        for sides, chosen, others in zip(counts, decision.solution.labels, decision.problem.labels, strict=True):
            _require(all((len(each.operands), len(each.results)) == sides for each in (chosen, *others)))
