"""Random programs of every op with every kind of sharding. Law 1: sharding does not change the results of a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.compiled.open_sizes import OpenExecutable
from meshgen.frontend.mlir import read_mlir
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.mesh import split_ref
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.registry import OPS
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.multi_mesh.mesh_assignment import place
from meshgen.sharding.partitioners import PARTITIONERS, Site
from meshgen.spec import PARTIAL_KINDS, Sharding
from meshgen.testing.generators.writer import INTEGERS
from meshgen.testing.oracle import compare, meaning
from meshgen.testing.random_graphs import random_arguments, random_open_program, random_program_on_two_meshes
from meshgen.testing.random_programs import (
    check_random,
    closed_programs_of,
    find_fault,
    is_open,
    options_of,
    program_of,
)
from tests.trials import trials

# random programs per test, so that the name of a failed test tells the seed to within 50; `meshgen check --random N`
# generates more
GROUP = 50
COVERED = 1000
# Ops that passes create or remove, and ops whose random requirements would contradict Shardy's groups
# (test_shardy_propagation.py).
NOT_GENERATED = {
    "sharding_group", "propagation_barrier",
    "axis_size",  # exists only if meshes have open sizes, and is removed with them (test_shard_queries.py)
    "view", "subview", "join", "kernel", "scan", "recurrence", "mask_padding", "fetch_rows", "permute", "retile", "update_halo", "transfer_send", "transfer_recv",
    "windows", "update_in_place",
    "attention", "attention_gradient_queries", "attention_gradient_keys",
}  # fmt: skip


@pytest.mark.parametrize("group", trials(2))
def test_random_programs_match_unsharded_results(group: int, tmp_path: Path) -> None:
    failures = check_random(GROUP, group * GROUP, tmp_path)
    assert not failures, "\n".join(f"{failure}\n{failure.path.read_text()}" for failure in failures)


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for region in node.regions:
            yield from _nodes(region)


def _shardings(module: Module) -> list[Sharding]:
    annotated = [annotation.sharding for annotation in (*module.in_annotations, *module.out_annotations) if annotation]
    return annotated + [node.attrs.sharding for node in module.graph.nodes if node.op == "annotate"]


def test_random_programs_cover_all_ops_and_shardings() -> None:
    ops, seen = Counter[str](), Counter[str]()
    for seed in range(COVERED):
        module = program_of(seed)
        mesh, meshes = module.mesh, {mesh.name: mesh for mesh in module.meshes}
        seen["several meshes"] += len({sharding.mesh for sharding in _shardings(module)}) > 1
        program = random_open_program(seed).module if is_open(seed) else module
        ops.update(node.op for node in _nodes(program.graph))
        seen["open dim"] += any(None in value.type.shape for value in program.graph.inputs)
        seen["open axis"] += not program.mesh.is_static
        seen["no rows"] += any(0 in value.type.shape for value in program.graph.values())
        seen.update({value.type.dtype for value in program.graph.inputs})
        seen["option"] += any(node.option is not None for node in module.graph.nodes)
        seen[f"{len(mesh.axes)} axes"] += 1
        for sharding in _shardings(module):
            refs = sharding.used_axes
            seen.update(kind for _, kind in sharding.partial)
            seen["halo"] += any(map(any, sharding.halo))
            seen["offsets"] += any(sharding.offsets)
            seen["parts of axes"] += any(split_ref(ref)[2] for ref in refs)
            mesh = meshes.get(sharding.mesh, module.mesh)
            seen["size 1"] += any(mesh.axis_size(ref) == 1 for ref in refs)
            seen["order of axes"] += any(sorted(axes, key=mesh.order) != list(axes) for axes in sharding.dims)
            seen["several kinds"] += len({kind for _, kind in sharding.partial}) > 1
    assert sorted({*OPS} - NOT_GENERATED - {*ops}) == []
    required = [
        *PARTIAL_KINDS,
        "halo",
        "offsets",
        "parts of axes",
        "size 1",
        "order of axes",
        "several kinds",
        "option",
        "several meshes",
        "open dim",
        "open axis",
        "no rows",
        *INTEGERS,
        *("i1", "i16", "ui16", "ui64", "f16", "bf16", "f32", "f64"),
    ]
    required += [f"{count} axes" for count in range(1, 5)]
    assert {feature: seen[feature] for feature in required if seen[feature] < 10} == {}


@pytest.mark.parametrize("group", trials(1))
def test_open_program_runs_for_all_sizes_from_one_module(group: int, tmp_path: Path) -> None:
    """The program is printed and parsed first. Its first sizes are compiled ahead of time, the other sizes when the
    module is loaded.
    """
    with_several_sizes = 0
    for seed in range(group * 5, group * 5 + 5):
        program = random_open_program(seed)
        open_module = parse_text(print_text(program.module))
        executable = api.plan(open_module, target="cpu")
        if not isinstance(executable, OpenExecutable):
            continue
        first_trial = program.trials[0]
        shapes = {name: shape for name, shape in first_trial.shapes.items() if name in executable.program.shapes}
        specialization = executable.specialize(first_trial.axes, shapes)
        types = [value.type for value in program.closed.graph.outputs]
        assert [value.type for value in next(iter(specialization.stages.values())).graph.outputs] == types, (
            f"seed {seed}"
        )
        executable.save(tmp_path / "m.mgx")
        loaded = api.load(tmp_path / "m.mgx")
        modules = closed_programs_of(seed, Options("cpu"))
        with_several_sizes += len(modules) > 1
        for module in modules:
            args = random_arguments(module)
            expected, bounds = meaning(module.graph, args, module.mesh)
            for value, *arrays in zip(
                module.graph.outputs, expected, loaded.on(module.mesh).run(args), bounds, strict=True
            ):
                assert compare(value.type, *arrays).ok, f"seed {seed} on {module.mesh}"
    assert with_several_sizes > 1 or group > 1  # later groups may have no module with several sizes


@pytest.mark.parametrize("seed", [305806, 314752])
def test_closings_of_open_program_exclude_invalid_sizes(seed: int) -> None:
    """A closing is the program with one choice of sizes. These seeds have sizes that are rounded up, a single row, and
    a constant whose shape is computed.
    """
    modules = closed_programs_of(seed, options_of(seed))
    assert 1 <= len(modules) <= len(random_open_program(seed).trials)


@pytest.mark.parametrize("group", trials(1))
def test_random_programs_on_two_meshes_match_unsharded_results(group: int) -> None:
    crossing = 0
    for seed in range(group * 20, group * 20 + 20):
        module = random_program_on_two_meshes(seed)
        crossing += len({*place(module).home.values()}) > 1
        assert find_fault(module, options_of(seed), seed) is None, f"seed {seed}"
    assert crossing > 10 or group > 1


@pytest.mark.parametrize("group", trials(1))
def test_text_of_programs_on_two_meshes_round_trips(group: int) -> None:
    for seed in range(group * 5, group * 5 + 5):
        module = parse_text(print_text(random_program_on_two_meshes(seed)))
        for stage, stage_module in run_stages(module, options_of(seed), Timing(), "schedule").items():
            text = print_text(stage_module)
            assert print_text(parse_text(text)) == text, f"seed {seed}, {stage}"


def test_failure_on_two_meshes_is_reduced_to_failing_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with matrix decompositions are skipped: the operand of a decomposition is symmetric, so the reduction
    cannot replace it with a random argument.
    """
    monkeypatch.setitem(PARTITIONERS, "transfer_recv", _zeros)
    programs = ((seed, program_of(seed)) for seed in range(300))
    seed = next(s for s, p in programs if p.meshes and not _decomposes(p) and _has_wrong_results(s))
    (failure,) = check_random(1, seed, tmp_path)
    small = read_mlir(failure.path)
    assert len(small.meshes) == 2 and len(small.graph.nodes) <= 3
    assert sum(mesh.size for mesh in small.meshes) <= 3
    fault = find_fault(small, options_of(seed), seed)
    assert fault and fault.kind == "wrong results"


def _has_wrong_results(seed: int) -> bool:
    fault = find_fault(program_of(seed), options_of(seed), seed)
    return fault is not None and fault.kind == "wrong results"


def _decomposes(program: Module) -> bool:
    return any(node.op in ("lapack", "cholesky") for node in program.graph.nodes)


def _zeros(site: Site) -> list[Value]:
    """Return zeros instead of the received values: a wrong partitioner of transfer_recv."""
    value, token = site.clone()
    return [site.builder.emit("subtract", [value, value], value.type), token]


def _keep_partial(site: Site) -> list[Value]:
    """Return the partial sum unchanged: a wrong partitioner of all_reduce."""
    return site.operands


def test_failure_is_reduced_and_written_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.setitem(PARTITIONERS, "all_reduce", _keep_partial)
    # with earlier seeds the program has no all_reduce, or differing replicas hide the fault
    seed = next(filter(_has_wrong_results, range(14, 200)))
    assert main(["check", "--random", "1", "--seed", str(seed), "--keep", str(tmp_path)]) == 3
    shown, path = capsys.readouterr().out, tmp_path / f"random_{seed}.mlir"
    assert f"seed {seed}: wrong results: error MG0605" in shown and str(path) in shown
    small = read_mlir(path)
    assert len(small.graph.nodes) <= 4 < len(program_of(seed).graph.nodes)
    fault = find_fault(small, options_of(seed), seed)
    assert fault and fault.kind == "wrong results"
    command = path.read_text().splitlines()[0].partition("meshgen ")[2].replace(path.name, str(path))
    assert main(command.split()) == 3
    assert "NUMBERS DIFFER" in capsys.readouterr().out


def test_program_that_cannot_be_closed_is_reported_as_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("of no size")

    first = next(seed for seed in range(100) if is_open(seed))
    monkeypatch.setattr("meshgen.testing.random_programs.closed", refuse)
    (failure,) = check_random(2, first, tmp_path)
    assert (failure.seed, failure.fault.text) == (first, "of no size")
    assert f"--random 1 --seed {first}" in failure.path.read_text() and "?" in failure.path.read_text()
