"""The Python interface: all kinds of programs, specs by name and by position, and the methods of an executable."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ArgumentError, MeshgenError, ShardingError, UsageError
from tests.programs import mlp

MESH = mg.make_mesh({"dp": 2, "tp": 4})
ARGS = {"x": "f32[8,12]", "params": {"w1": "f32[12,16]", "w2": "f32[16,12]"}}
EPS = float(np.finfo(np.float32).eps)


def model(x: Any, params: dict[str, Any]) -> dict[str, Any]:
    h = mg.tanh(x @ params["w1"])
    return {"y": h @ params["w2"], "h": h}


def arrays() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    x, w1, w2 = (rng.standard_normal(shape).astype(np.float32) for shape in [(8, 12), (12, 16), (16, 12)])
    return x, {"w1": w1, "w2": w2}


def compiled(**options: Any) -> mg.Executable:
    specs = {"x": mg.P("dp"), "*.w1": mg.P(None, "tp"), "params.w2": mg.P("tp", None)}
    return mg.compile(model, MESH, args=ARGS, in_specs=specs, target="cpu", **options)


@pytest.fixture(scope="module")
def executable() -> mg.Executable:
    return compiled(out_specs={"result.0": mg.P("dp")})


def test_calling_simulates_all_ranks_in_the_traced_structure(executable: mg.Executable) -> None:
    x, params = arrays()
    results = executable(x, params)
    h = np.tanh(x.astype(np.float64) @ params["w1"])
    bound = 64 * EPS * (np.abs(h) @ np.abs(params["w2"]) + np.abs(x).sum(1, keepdims=True) * 16)
    assert list(results) == ["y", "h"]
    assert np.all(np.abs(results["y"] - h @ params["w2"]) <= bound)
    assert np.all(np.abs(results["h"] - h) <= 64 * EPS * np.abs(x) @ np.abs(params["w1"]) + EPS)
    by_name = executable(x, params=params)
    np.testing.assert_array_equal(by_name["y"], results["y"])


def test_executable_records_describe_the_plan(executable: mg.Executable) -> None:
    (row,) = executable.comms
    assert (row.kind, row.axes, row.group_size, row.reduction) == ("all_reduce", ("tp",), 4, "sum")
    assert "params.w2" in row.why
    assert executable.comms.count("all_reduce") == 1 and executable.comms.count("all_gather") == 0
    local = 4 * 12 * 4
    assert row.ring_bytes == 2 * 3 * local // 4 == executable.cost.ring_bytes
    assert executable.memory.peak_bytes >= executable.memory.input_bytes > 0
    assert executable.cost.kernels == 2
    for shown in (executable.comms, executable.memory, executable.cost):
        assert len(str(shown).splitlines()) > 2
    assert "all_reduce" in executable.comms._repr_html_()
    assert "2 kernels, 1 collectives" in repr(executable)


def test_text_of_every_stage_round_trips(executable: mg.Executable) -> None:
    from meshgen.mlir.text import parse_text, print_text

    assert list(executable.stages) == ["import", "propagate", "materialize", "optimize", "partition", "fuse"]
    for stage in (*executable.stages, "schedule"):
        text = executable.as_text(stage)
        assert print_text(parse_text(text)) == text
    with pytest.raises(UsageError, match="unknown stage 'nope'"):
        executable.as_text("nope")


def test_explain_names_the_deciding_annotation(executable: mg.Executable) -> None:
    assert "annotated as [{}, {tp}] (required)" in executable.explain("params.w1")
    line = model.__code__.co_firstlineno + 1
    assert "dot_general" in executable.explain(line) and "tanh" in executable.explain(line)
    assert "all_reduce" in executable.explain()


def test_saved_modules_run_and_are_reproducible(executable: mg.Executable, tmp_path: Path) -> None:
    first, second = tmp_path / "a.mgx", tmp_path / "b.mgx"
    executable.save(first)
    compiled(out_specs={"result.0": mg.P("dp")}).save(second)
    assert first.read_bytes() == second.read_bytes()
    x, params = arrays()
    got, want = mg.load(first)(x, params), executable(x, params)
    assert [*got] == [*want] == ["y", "h"]
    np.testing.assert_allclose(got["y"], want["y"], rtol=0, atol=0)
    np.testing.assert_allclose(got["h"], want["h"], rtol=0, atol=0)


def test_saved_module_stores_weights(executable: mg.Executable, tmp_path: Path) -> None:
    x, params = arrays()
    executable.save(tmp_path / "w.mgx", weights={f"params.{name}": array for name, array in params.items()})
    module = mg.load(tmp_path / "w.mgx")
    assert [b.name for b in module.inputs] == ["x"]
    np.testing.assert_array_equal(module(x)["y"], executable(x, params)["y"])


def test_global_arguments_are_sliced_by_every_rank() -> None:
    x, params = arrays()
    sliced = compiled(arguments="global")
    assert [str(value.type) for value in sliced.fused.graph.inputs] == ["f32[8,12]", "f32[12,16]", "f32[16,12]"]
    np.testing.assert_array_equal(sliced(x, params)["y"], compiled()(x, params)["y"])


def test_program_may_be_text_path_or_module(tmp_path: Path) -> None:
    text = mlp()
    path = tmp_path / "mlp.mlir"
    path.write_text(text)
    module = mg.lower(text, stage="import")
    counts = {mg.compile(source, target="cpu").comms.counts["all_reduce"] for source in (text, path, str(path), module)}
    assert counts == {1}
    assert mg.lower(path, stage="partition").stage == "partition"


def test_sequence_of_axis_numbers_is_accepted_as_spec() -> None:
    module = mg.lower(model, MESH, args=ARGS, in_specs=[[[0], []], None, [["tp"]]], stage="import")
    dims = [annotation.sharding.dims if annotation else None for annotation in module.in_annotations]
    assert dims == [(("dp",), ()), None, (("tp",), ())]


def test_progress_callback_receives_stages_and_passes() -> None:
    reported: list[str] = []
    compiled(progress=lambda step, done, total: reported.append(step))
    stages = ["import", "propagate", "materialize", "optimize", "partition", "fuse", "schedule"]
    assert [step for step in reported if ":" not in step] == stages
    assert reported.index("partition") < reported.index("partition: collective-combine") < reported.index("fuse")


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"in_specs": {"nope": mg.P("dp"), "x": mg.P("dp")}}, UsageError, "unknown input 'nope'"),
        ({"in_specs": [mg.P("dp")]}, UsageError, "1 input specs were given, but there are 3"),
        ({"out_specs": mg.P("dp")}, UsageError, "1 output specs were given, but there are 2"),
        ({"in_specs": {"x": mg.P("qq")}}, ShardingError, "mesh axis 'qq'"),
        ({"in_specs": {"x": mg.P("dp", "dp")}}, ShardingError, "MG0203"),
        ({"in_specs": {"x": mg.P(None, None, "dp")}}, ShardingError, "3 dims.*rank 2"),
        ({"in_specs": {"x": [[7]]}}, ShardingError, "axis number"),
        ({"target": "tpu"}, UsageError, "unknown target 'tpu'"),
        ({"arguments": "some"}, UsageError, "'some'"),
        ({"args": None}, UsageError, "args="),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], kind: type[MeshgenError], text: str) -> None:
    with pytest.raises(kind, match=f"(?s){text}"):
        mg.compile(model, MESH, **{"args": ARGS, "target": "cpu"} | options)


def test_faults_of_all_annotations_are_reported_at_once() -> None:
    with pytest.raises(ShardingError) as caught:
        mg.compile(model, MESH, args=ARGS, in_specs={"x": mg.P("q"), "params.w1": mg.P("r")}, target="cpu")
    assert re.findall(r"'([qr])' is not in", str(caught.value)) == ["q", "r"]


@pytest.mark.parametrize("thing", [3, None, object()])
def test_other_object_is_refused_as_program(thing: Any) -> None:
    with pytest.raises(UsageError, match="expected a program"):
        mg.compile(thing, MESH)


def test_all_mismatched_arguments_are_named(executable: mg.Executable) -> None:
    x, params = arrays()
    with pytest.raises(ArgumentError, match=r"'params' is missing(?s:.)*the arguments are \(x, params: \{w1, w2\}\)"):
        executable(x)
    with pytest.raises(ArgumentError, match=r"(?s)'x' has type f64.*'params.w1' has type f32\[12,3\]"):
        executable(x.astype(np.float64), params | {"w1": params["w1"][:, :3]})


def test_public_names_are_importable_and_listed() -> None:
    assert {"compile", "matmul", "softmax", "P"} <= set(dir(mg))
    assert callable(mg.spec) and callable(mg.sum)
    with pytest.raises(AttributeError, match="nope"):
        mg.nope  # noqa: B018


def test_every_public_name_has_a_type() -> None:
    stub = ast.parse((Path(mg.__file__).parent / "__init__.pyi").read_text())
    typed = {name.name for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names if name.asname}
    typed |= {node.name for node in stub.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    typed |= {
        node.target.id for node in stub.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert typed - {"__version__", "IMPORTED_AT"} == set(dir(mg))


def test_surplus_args_are_refused() -> None:
    text = "func.func @main(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {\n  return %a : tensor<?x4xf32>\n}"
    assert mg.lower(text, {"x": 2}, stage="import", args=["f32[8,4]"]).graph.inputs[0].type.sizes == (8, 4)
    with pytest.raises(UsageError, match="2 args were given, but the program takes 1"):
        mg.lower(text, {"x": 2}, stage="import", args=["f32[8,4]", "f32[8,4]"])


def test_mesh_with_unknown_name_is_refused() -> None:
    text = 'sdy.mesh @own = <["x"=2]>\nfunc.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}'
    assert mg.lower(text, mg.make_mesh({"x": 2}, "own"), stage="import").mesh.name == "own"
    with pytest.raises(UsageError, match="unknown mesh '@other'"):
        mg.lower(text, mg.make_mesh({"x": 2}, "other"), stage="import")


WRONG_KINDS: list[Any] = [
    5,
    1.5,
    b"x",
    [[1], [1, 2]],
    {5: 6},
    {"v": [[1], [1, 2]]},
    {None: 1},
    object(),
    np.ones(3),
    {1},
    slice(1),
]
REST: dict[str, Any] = {"args": ["f32[4]"], "target": "cpu"}


@pytest.mark.parametrize("given", WRONG_KINDS, ids=lambda given: type(given).__name__)
def test_argument_of_wrong_type_is_refused_at_the_calling_line(given: Any, tmp_path: Path) -> None:
    program = mg.compile(lambda v: v * 2, {"x": 2}, **REST)
    text = "func.func @main(%v: tensor<?x4xf32>) -> tensor<?x4xf32> {\n  return %v : tensor<?x4xf32>\n}"
    opened = mg.compile(text, {"x": 2}, target="cpu")
    options = ("in_specs", "out_specs", "args", "target", "arguments", "sizes", "strict", "progress")
    calls: list[Any] = [lambda o=o: mg.compile(lambda v: v, {"x": 2}, **REST | {o: given}) for o in options]
    calls += [lambda: mg.compile(lambda v: v, [given], **REST), lambda: mg.compile(given, {"x": 2})]
    calls += [
        lambda: mg.lower(lambda v: v, {"x": 2}, stage=given, args=["f32[4]"]),
        lambda: mg.spec("f32", given),
        lambda: mg.spec([given]),
    ]
    calls += [lambda: program(given), lambda: opened(given), lambda: program.as_text(given), lambda: mg.advise(given)]
    calls += [lambda: program.save(tmp_path / "m", weights=given), lambda: opened.save(tmp_path / "m", weights=given)]
    calls += [lambda: opened.at(args=given), lambda: program.at(mesh=[given])]
    program.save(tmp_path / "m.mgx")
    if not isinstance(given, int):
        calls += [lambda: mg.load(tmp_path / "m.mgx", devices=given)]
        calls += [lambda: program.explain(given), lambda: program.show(given), lambda: program.report(given)]
        calls += [
            lambda: opened.save(given),
            lambda: program.save(given),
            lambda: opened.report(given),
            lambda: mg.load(given),
        ]
    for index, call in enumerate(calls):
        with pytest.raises(MeshgenError) as caught:
            assert call() is None, index
        assert all(diagnostic.loc and diagnostic.loc.file == __file__ for diagnostic in caught.value.diagnostics), index


BAD_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"mesh": "x=2"}, "MG0001.*expected a mesh"),
    ({"mesh": {"x": 2.0}}, "MG0201.*positive integer"),
    ({"mesh": {"x": math.nan}}, "MG0201.*positive integer"),
    ({"mesh": {"x": True}}, "MG0201.*positive integer"),
    ({"mesh": {3: 2}}, "MG0201.*a name must be printable"),
    ({"in_specs": {"v": 3}}, "MG0204.*expected a mesh axis"),
    ({"in_specs": {"v": "q"}}, "MG0202.*'q'"),
    ({"out_specs": "x,_,_"}, "MG0204.*3 dims"),
    ({"target": 5}, "MG0001.*unknown target"),
    ({"machine": 5}, "MG0001.*expected a machine profile or its name, got 5"),
    ({"sizes": [{"mash": 2}]}, "MG0001.*sizes to compile for"),
    ({"sizes": 3}, "MG0001.*sizes to compile for"),
    ({"sizes": [{"mesh": {"q": 2}}]}, "MG0202.*'q'"),
    ({"args": [[3]]}, "MG0001.*not a tensor type"),
    ({"args": ["f32[?]"]}, "MG0001.*static sizes"),
]


@pytest.mark.parametrize(("given", "message"), BAD_CALLS, ids=[str(given) for given, _ in BAD_CALLS])
def test_invalid_compile_argument_is_refused(given: dict[str, Any], message: str) -> None:
    def function(v: mg.Tensor) -> mg.Tensor:
        return mg.tanh(v)

    call: dict[str, Any] = {"mesh": {"x": 2}, "args": ["f32[4,6]"], "target": "cpu"} | given
    with pytest.raises(mg.MeshgenError, match=f"(?s){message}"):
        mg.compile(function, **call)


def test_all_forms_of_a_sharding_are_equivalent() -> None:
    forms: list[Any] = [mg.P("x"), "x", "x,_", ("x", None), [["x"], []], [[0], []]]
    annotations = {
        str(mg.lower(lambda v: v * 2, {"x": 2}, stage="import", args=["f32[4,6]"], in_specs=[form]).in_annotations)
        for form in forms
    }
    assert len(annotations) == 1
    with pytest.raises(mg.MeshgenError, match="MG0204"):
        mg.P(3)  # pyright: ignore[reportArgumentType]


def test_output_spec_accepts_the_name_of_the_value() -> None:
    text = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %b = stablehlo.tanh %a : tensor<8xf32>
  return %b : tensor<8xf32>
}"""
    plans = [mg.compile(text, out_specs={name: mg.P("x")}, target="cpu").explain("b") for name in ("b", "result")]
    assert plans[0] == plans[1] and "x splits dim 0" in plans[0]


@pytest.mark.parametrize("name", ["_private", "__wrapped__", "cli", "codegen"])
def test_private_names_and_modules_are_not_attributes(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^module 'meshgen' has no attribute '{name}'$"):
        mg.__getattr__(name)


def test_repeated_or_unknown_argument_of_call_is_refused() -> None:
    executable = mg.compile(lambda v, w: v + w, {"x": 2}, args=["f32[4]", "f32[4]"], target="cpu")
    v = np.ones(4, np.float32)
    with pytest.raises(mg.MeshgenError, match="'w' is given twice"):
        executable(v, v, w=v)
    with pytest.raises(mg.MeshgenError, match="unknown argument 'q'"):
        executable(v, q=v)


def test_repr_of_results_is_one_line(tmp_path: Path) -> None:
    """Programs, searches, simulations and sessions have a short repr for the Python prompt."""

    def double(x: mg.Tensor) -> mg.Tensor:
        return x + x

    executable = mg.compile(double, {"a": 4}, args=["f32[64]"], target="cpu")
    executable.save(tmp_path / "m.mgx")
    assert repr(executable.stages["import"]) == "Module('double', Mesh(a=4), stage 'import', 1 operations)"
    result = mg.search(double, {"a": 4}, args=["f32[4096,4096]"], target="cpu")
    assert repr(result).startswith("Found('double', Mesh(a=4), step ") and "specs={'x': 'a,_'}" in repr(result)
    assert str(result).startswith("x, f32[4096,4096]: by rows over a\n\nA step takes ")
    shown, searched = (replace(result, is_given=is_given, gap=0.05 * is_given).verdict for is_given in (True, False))
    assert "per device, of the program as given." in shown and "at most 5.0% above the best" in shown
    assert "as given" not in searched and "proven the best" in searched
    assert repr(mg.simulate(executable)).startswith("Simulation('one-host (H200)', 4 ranks, step ")
    with mg.load(tmp_path / "m.mgx").session() as session:
        assert repr(session) == "Session('double')"
    assert repr(session) == "Session('double', closed)"


@pytest.mark.parametrize(("file", "message"), [("model.py", "a Python file(?s:.)*pass the function"), ("model.mgx", "a compiled module(?s:.)*meshgen.load")])  # fmt: skip
def test_other_file_is_refused_as_program_with_advice(file: str, message: str, tmp_path: Path) -> None:
    (tmp_path / file).touch()
    with pytest.raises(UsageError, match=message):
        mg.compile(tmp_path / file, {"d": 2}, target="cpu")
