"""Modules whose sizes stay open until load: specialisations ahead of time, others made when the module loads."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.errors import ArgumentError, MeshgenError, MissingError, ModuleError, ProgramError, ShardingError
from meshgen.executable_open import AHEAD, AT_LOAD, OpenExecutable
from meshgen.runtime import container, loading
from meshgen.runtime.open_module import OpenModule
from meshgen.runtime.sizes import LAUNCHERS
from tests.runtime.scrambled import scramble

Array = np.ndarray[Any, Any]
# Rows are split along axis 1, columns along axis 0: uneven, and empty on more than five devices.
PROGRAM = """
shard.grid @g(shape = ?x2)
func.func @f(%x: tensor<?x12xf32>, %w: tensor<12x8xf32>) -> (tensor<?x8xf32>, tensor<?x12xf32>) {
  %s = shard.sharding @g split_axes = [[1], [0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<?x12xf32>
  %a = stablehlo.dot_general %xs, %w, contracting_dims = [1] x [0] : (tensor<?x12xf32>, tensor<12x8xf32>) -> tensor<?x8xf32>
  %b = stablehlo.tanh %a : tensor<?x8xf32>
  %c = stablehlo.negate %xs : tensor<?x12xf32>
  return %b, %c : tensor<?x8xf32>, tensor<?x12xf32>
}
"""
STAGES = """
shard.grid @a(shape = 2) {axis_names = ["x"]}
shard.grid @b(shape = 2) {axis_names = ["x"]}
func.func @f(%v: tensor<?xf32>) -> tensor<?xf32> {
  %s = shard.sharding @a split_axes = [[0]] : !shard.sharding
  %vs = shard.shard %v to %s : tensor<?xf32>
  %h = stablehlo.tanh %vs : tensor<?xf32>
  %t = shard.sharding @b split_axes = [[0]] : !shard.sharding
  %ht = shard.shard %h to %t : tensor<?xf32>
  %r = stablehlo.negate %ht : tensor<?xf32>
  return %r : tensor<?xf32>
}
"""
SIZES = [{"mesh": {"0": 2}, "args": {"x": (6, 12)}}, {"mesh": {"0": 3}, "args": {"x": "f32[5,12]"}}]
W = np.arange(96, dtype=np.float32).reshape(12, 8) / 100 - 0.5


def rows(count: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, 12)).astype(np.float32)


def written(path: Path, sizes: Sequence[Mapping[str, Any]] = SIZES, **options: Any) -> Path:
    exe = mg.compile(PROGRAM, target="cpu", sizes=sizes)
    exe.save(path, **options)
    return path


def is_right(module: Any, count: int) -> None:
    x = rows(count)
    b, c = module(x, W)
    # 12 products and their sum, each rounded: at most 13 eps of the sum of magnitudes; tanh shrinks differences.
    np.testing.assert_allclose(b, np.tanh(x.astype(np.float64) @ W), rtol=0, atol=13 * 2.0**-23 * 12 * 4 * 0.5)
    np.testing.assert_array_equal(c, -x)


# Loading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_module_runs_for_every_size_and_says_how_it_was_made(size: int, tmp_path: Path) -> None:
    module = mg.load(written(tmp_path / "m.mgx"), mesh={"0": size})
    for count in (0, 1, 5, 6, 7):
        is_right(module, count)
        held = (size, count) in ((2, 6), (3, 5))
        found = module.at(args={"x": (count, 12)})
        said = {"mesh": {"0": size}, "args": {"x": [count, 12]}, "made": AHEAD if held else AT_LOAD}
        assert found.report["specialised"] == said
        assert found.mesh.shape == (size, 2) and found.inputs[0].type.shape == (count, 12)


def test_a_specialisation_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = mg.load(written(tmp_path / "m.mgx"), mesh={"0": 4})
    first = module.at(args={"x": (4, None)})
    monkeypatch.setattr(OpenModule, "_made", None)
    assert module.at(args={"x": (4, 12)}) is first
    is_right(module, 4)


def test_without_open_dims_load_gives_an_ordinary_module(tmp_path: Path) -> None:
    text, path = PROGRAM.replace("?x12", "7x12").replace("?x8xf32", "7x8xf32"), tmp_path / "m.mgx"
    mg.compile(text, target="cpu", sizes=[{"mesh": {"0": 3}}]).save(path)
    for size in (3, 4):
        module = mg.load(path, {"0": size})
        assert not isinstance(module, OpenModule) and module.ranks == 2 * size
        is_right(module, 7)
    with pytest.raises(
        ShardingError, match=r"MG0201.*'0' is unknown until load\n.*--mesh 0=2.*specialisations for 0=3"
    ):
        mg.load(path)(rows(7), W)


def test_without_a_compiler_the_sizes_of_the_module_are_listed(tmp_path: Path) -> None:
    module = loading.load(written(tmp_path / "m.mgx"), {"0": 3})
    is_right(module, 5)
    with pytest.raises(
        MissingError, match=r"MG0602.*no specialisation for 0=3, x=6x12.*0=2, x=6x12; 0=3, x=5x12"
    ) as error:
        module(rows(6), W)
    assert error.value.exit_code == 5


@pytest.mark.parametrize(
    ("mesh", "args", "kind", "text"),
    [
        ({"1": 3}, {}, ShardingError, "MG0201.*compiled for 2 devices along mesh axis '1', not 3"),
        ({"z": 3}, {}, ShardingError, "MG0202.*'z'"),
        ({"other": {"0": 3}}, {}, ShardingError, "MG0202.*@other"),
        ({"0": 0}, {}, ShardingError, "MG0201.*at least 1"),
        (None, {"x": (5, 12)}, ShardingError, "MG0201.*'0' is unknown until load"),
        (
            {"0": 2},
            {},
            ArgumentError,
            r"MG0601.*shape of argument 'x' is missing\n.*open is mesh axis 0, x: f32\[\?,12\]",
        ),
        ({"0": 2}, {"x": (5, 13)}, ArgumentError, r"MG0601.*'x' is f32\[\?,12\], not f32\[5,13\]"),
        ({"0": 2}, {"x": (5,)}, ArgumentError, "MG0601.*'x'"),
        ({"0": 2}, {"x": (-5, 12)}, ArgumentError, "MG0601.*'x'"),
        ({"0": 2}, {"x": (None, 12)}, ArgumentError, r"MG0601.*size of argument 'x': f32\[\?,12\] is missing"),
        ({"0": 2}, {"x": (5, 12), "q": (1,)}, ArgumentError, "MG0601.*no argument 'q'"),
        ({"0": 2}, {"x": (5, 12), "w": (1, 1)}, ArgumentError, "MG0601.*'w'"),
    ],
)
def test_sizes_that_contradict_the_module(
    mesh: Any, args: Any, kind: type[MeshgenError], text: str, tmp_path: Path
) -> None:
    exe = mg.compile(PROGRAM, target="cpu", sizes=SIZES)
    exe.save(tmp_path / "m.mgx")
    with pytest.raises(kind, match=text):
        mg.load(tmp_path / "m.mgx", mesh).at(args=args)
    with pytest.raises(kind, match=text):
        exe.at(mesh, args)


def test_what_needs_sizes_says_which(tmp_path: Path) -> None:
    exe, module = mg.compile(PROGRAM, target="cpu"), mg.load(written(tmp_path / "m.mgx", []), {"0": 2})
    for ask in (lambda: exe.comms, lambda: exe.plan, lambda: exe.fused, lambda: exe.explain("w")):
        with pytest.raises(ShardingError, match="MG0201"):
            ask()
    for ask in (lambda: module.schedule, lambda: module.inputs, lambda: module.kernel_names):
        with pytest.raises(ArgumentError, match=r"MG0601.*'x' is missing"):
            ask()
    assert "compiled for no sizes" in repr(exe) and list(module.stages) == ["import"]


@pytest.mark.parametrize("name", LAUNCHERS)
def test_the_one_open_axis_follows_from_the_processes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "m.mgx")
    for other in LAUNCHERS:
        monkeypatch.delenv(other, raising=False)
    assert mg.load(path).mesh.shape == (None, 2)
    monkeypatch.setenv(name, "6")
    assert mg.load(path).mesh.shape == (3, 2)
    assert mg.load(path, {"0": 5}).mesh.shape == (5, 2)  # what is given is not overruled
    assert mg.load(path, devices=4).mesh.shape == (2, 2)
    monkeypatch.setenv(name, "5")
    with pytest.raises(MissingError, match=r"MG0603.*5 devices do not fill.*5 % 2 = 1"):
        mg.load(path)


# The file ------------------------------------------------------------------------------------------------------


def test_equal_members_are_stored_once(tmp_path: Path) -> None:
    path = written(tmp_path / "m.mgx", [*SIZES, {"mesh": {"0": 4}, "args": {"x": (6, 12)}}], weights={"w": W})
    found = container.Container(path)
    contents = [bytes(found[name]) for name in found]
    assert len({*contents}) == len(contents)
    assert [name for name in found if name.endswith("weights.safetensors")] == ["weights.safetensors"]
    module = mg.load(path)
    assert isinstance(module, OpenModule)
    counts = [len(members) for members in module.program.held.values()]
    assert len(counts) == 3 and sum(counts) > len(contents)
    x = rows(6)
    for size in (2, 4, 7):
        np.testing.assert_array_equal(module.at({"0": size}, {"x": (6, 12)})(x)[1], -x)


def test_the_same_program_gives_the_same_bytes(tmp_path: Path) -> None:
    assert written(tmp_path / "a.mgx").read_bytes() == written(tmp_path / "b.mgx").read_bytes()


def test_weights_say_their_sizes(tmp_path: Path) -> None:
    text = PROGRAM.replace("%w: tensor<12x8xf32>", "%w: tensor<?x?xf32>").replace("tensor<12x8xf32>) ->", "tensor<?x?xf32>) ->")  # fmt: skip
    exe, path = mg.compile(text, target="cpu"), tmp_path / "m.mgx"
    assert isinstance(exe, OpenExecutable)
    exe.specialise({"0": 2}, {"x": (6, 12), "w": (12, 8)})
    exe.save(path, weights={"w": W})
    module = mg.load(path, {"0": 2})
    assert isinstance(module, OpenModule) and module.program.shapes == ("x",)
    assert [module.at(args={"x": (n, 12)}).report["specialised"]["made"] for n in (6, 7)] == [AHEAD, AT_LOAD]
    np.testing.assert_array_equal(module(rows(7))[1], -rows(7))
    for bad in ({"q": W}, {"w": W[:, 0]}, {"w": W.astype(np.float64)}, {"w": W[:, :7]}):
        with pytest.raises(ArgumentError, match="MG0601"):
            exe.save(path, weights=bad)
    closed = mg.compile(PROGRAM, {"0": 2, "1": 2}, target="cpu")
    closed.save(path, weights={"x": rows(3)})
    assert not isinstance(mg.load(path), OpenModule)
    np.testing.assert_array_equal(mg.load(path)(W)[1], -rows(3))


def test_any_flipped_byte_is_found(tmp_path: Path) -> None:
    path = written(tmp_path / "m.mgx")
    raw, rng = path.read_bytes(), random.Random(5)
    for place in {*range(40), *range(len(raw) - 100, len(raw)), *(rng.randrange(len(raw)) for _ in range(200))}:
        broken = bytearray(raw)
        broken[place] ^= rng.randrange(1, 256)
        path.write_bytes(broken)
        with pytest.raises(ModuleError):
            mg.load(path)
    for size in (0, 30, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:size])
        with pytest.raises(ModuleError):
            mg.load(path)


def forged(path: Path, change: Callable[[Any], Any], members: Mapping[str, bytes] | None = None) -> Path:
    """The module with its manifest changed and all digests made right again."""
    found = container.Container(path)
    files = {name: bytes(found[name]) for name in found} | dict(members or {})
    manifest = json.loads(files["manifest.json"])
    change(manifest)
    manifest["files"] = {n: hashlib.sha256(files[n]).hexdigest() for n in files if not n.startswith("manifest.")}
    files["manifest.json"] = json.dumps(manifest).encode()
    files["manifest.sha256"] = hashlib.sha256(files["manifest.json"]).hexdigest().encode()
    container.write(path.with_name("forged.mgx"), files)
    return path.with_name("forged.mgx")


def used(path: Path) -> None:
    """Load a module, and every specialisation in it."""
    module = mg.load(path)
    assert isinstance(module, OpenModule)
    for sizes in module.specialisations:
        module.held(sizes)


def swapped(manifest: Any) -> None:
    first, second = manifest["specialisations"]
    first["members"], second["members"] = second["members"], first["members"]


FORGERIES: list[Callable[[Any], Any]] = [
    swapped,
    lambda m: m.update(axes=["1"]),
    lambda m: m.update(axes=["0", "0"]),
    lambda m: m.update(axes=[], shapes=[]),
    lambda m: m.update(shapes=["w"]),
    lambda m: m.update(shapes=["x", "x"]),
    lambda m: m.update(stage="export"),
    lambda m: m.update(stage="fuse"),
    lambda m: m.update(meshes=[]),
    lambda m: m.update(specialisations={}),
    lambda m: m["specialisations"].pop(),
    lambda m: m["specialisations"].append(m["specialisations"][0]),
    lambda m: m["specialisations"][0].update(axes=[["0", 4]]),
    lambda m: m["specialisations"][0].update(axes=[["0", -1]]),
    lambda m: m["specialisations"][0].update(axes=[]),
    lambda m: m["specialisations"][0].update(shapes=[["x", [7, 12]]]),
    lambda m: m["specialisations"][0].update(shapes=[["x", [6, 13]]]),
    lambda m: m["specialisations"][0]["members"].update({"manifest.json": "00"}),
    lambda m: m["specialisations"][0]["members"].pop("manifest.json"),
    lambda m: m["specialisations"][0]["members"].pop("constants.safetensors"),
    lambda m: m["inputs"][0].update(shape=[None, 13]),
    lambda m: m["inputs"][0].update(stored=True),
    lambda m: m["inputs"][0].update(name="w"),
    lambda m: m["inputs"][1].update(dtype="object"),
]


@pytest.mark.parametrize("change", FORGERIES)
def test_forged_manifests_are_refused(change: Callable[[Any], Any], tmp_path: Path) -> None:
    path = written(tmp_path / "m.mgx")
    used(forged(path, lambda _: None))
    with pytest.raises(ModuleError, match="MG0502"):
        used(forged(path, change))


def test_members_that_nobody_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match="MG0502"):
        used(forged(written(tmp_path / "m.mgx"), lambda _: None, {"sizes/00/more.txt": b"more"}))


def test_a_newer_format_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match=r"MG0503.*format 4.*reads up to 3"):
        used(forged(written(tmp_path / "m.mgx"), lambda m: m.update(format=4)))


def test_random_changes_of_the_manifest_never_crash(tmp_path: Path) -> None:
    path, rng = written(tmp_path / "m.mgx"), random.Random(17)
    junk = [None, True, -1, 0, 1 << 70, 0.5, "", "x", [], {}, [[]], {"a": 1}, [0, 0]]
    refused = 0
    for _ in range(150):
        try:
            used(forged(path, lambda manifest: scramble(manifest, rng, junk)))
        except MeshgenError as error:
            assert error.exit_code == 1
            refused += 1
    assert refused > 100


DEPLOYED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("xdsl", "triton", "jax", "scipy", "rich", "jinja2"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Refuse())
import numpy as np
import meshgen as mg
module = mg.load(sys.argv[1], {"0": 3})
x = np.ones((5, 12), np.float32)
assert (module(x, np.ones((12, 8), np.float32))[1] == -x).all()
try:
    module(x[:4], np.ones((12, 8), np.float32))
except mg.MeshgenError as error:
    print(error)
    sys.exit(error.exit_code)
"""


def test_a_deployment_machine_runs_what_was_made_ahead_of_time(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    command = [sys.executable, "-c", DEPLOYED, str(written(tmp_path / "m.mgx"))]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 5 and "0=3, x=4x12" in result.stdout and "'xdsl' is not installed" in result.stdout, (
        result
    )


# Programs ------------------------------------------------------------------------------------------------------


def test_a_traced_function_keeps_its_structure() -> None:
    def step(x: Any) -> Any:
        return {"a": mg.tanh(x), "b": [x + 1]}

    exe = mg.compile(step, {"dp": None}, args=["f32[7,3]"], in_specs={"x": mg.P("dp")}, target="cpu", sizes=[{"mesh": {"dp": 2}}])  # fmt: skip
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    found = exe.at({"dp": 5})(x)
    np.testing.assert_array_equal(found["b"][0], x + 1)
    with pytest.raises(ShardingError, match="MG0201"):
        exe(x)


def test_dims_may_be_open_where_the_mesh_is_known(tmp_path: Path) -> None:
    exe = mg.compile(PROGRAM, {"0": 3, "1": 2}, target="cpu", args={"w": (12, 8)}, sizes=[{"args": [(6, 12)]}])
    exe.save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    assert isinstance(module, OpenModule) and not module.program.axes
    is_right(module, 6)
    is_right(module, 5)
    is_right(exe, 4)


def test_some_shapes_given_others_open(tmp_path: Path) -> None:
    text = PROGRAM.replace("%w: tensor<12x8xf32>", "%w: tensor<?x?xf32>").replace("tensor<12x8xf32>) ->", "tensor<?x?xf32>) ->")  # fmt: skip
    exe = mg.compile(text, target="cpu", args={"w": (None, 8)}, sizes=[{"mesh": {"0": 2}, "args": {"x": (6, 12), "w": (12, None)}}])  # fmt: skip
    exe.save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx", {"0": 2})
    is_right(module, 6)
    with pytest.raises(ArgumentError, match=r"MG0601.*'w' is f32\[\?,8\], not f32\[12,7\]"):
        module(rows(6), W[:, :7])
    with pytest.raises(ProgramError, match=r"MG0104.*dot_general"):
        module(rows(6), W[:11])


def test_programs_on_several_meshes(tmp_path: Path) -> None:
    def stages(x: Any, w: Any) -> Any:
        return mg.annotate(mg.tanh(x), mg.P("dp", mesh="b")) @ w

    meshes = {"a": {"dp": None, "tp": 2}, "b": {"dp": None}}
    exe = mg.compile(stages, meshes, args=["f32[7,12]", "f32[12,8]"], in_specs={"x": mg.P("dp", mesh="a")}, target="cpu",
                     sizes=[{"mesh": {"a": {"dp": 2}, "b": {"dp": 3}}}])  # fmt: skip
    exe.save(tmp_path / "m.mgx")
    for a, b in ((2, 3), (1, 4)):
        module = mg.load(tmp_path / "m.mgx", {"a": {"dp": a}, "b": {"dp": b}})
        assert module.ranks == 2 * a + b
        assert module.report["specialised"]["made"] == (AHEAD if (a, b) == (2, 3) else AT_LOAD)
        np.testing.assert_allclose(module(rows(7), W), np.tanh(rows(7).astype(np.float64)) @ W, rtol=0, atol=1e-5)
    with pytest.raises(ShardingError, match=r"MG0201.*'b:dp' is unknown"):
        mg.load(tmp_path / "m.mgx", {"a": {"dp": 2}})(rows(7), W)


# The command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(PROGRAM)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[Any, str]:
    """The document and the notes of a command."""
    assert main([*words, "--json"]) == code
    out, err = capsys.readouterr()
    return json.loads(out), err


COMPILE = ("compile", "p.mlir", "--target", "cpu", "-o", "p.mgx")
NAMED = ("--mesh", "0=2|3", "--shape", "x=6x?|5x12")


def test_commands_on_open_sizes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, notes = said(capsys, *COMPILE, *NAMED, "--report", "p.html", "--dump", "dump")
    assert notes == "" and document["open"] == {"axes": ["0"], "inputs": {"x": "f32[?,12]"}}
    sizes = [
        (each["specialised"]["mesh"]["0"], each["specialised"]["args"]["x"][0]) for each in document["specialisations"]
    ]
    assert sizes == [(2, 6), (2, 5), (3, 6), (3, 5)]
    assert Path("p.html").read_text().count("<h2>Open sizes: ") == 4 and len(list(Path("dump").iterdir())) == 4
    inspected, _ = said(capsys, "inspect", "p.mgx")
    assert inspected["specialisations"] == [{k: v for k, v in each.items() if k != "seconds"} for each in document["specialisations"]]  # fmt: skip
    assert inspected["open"] == document["open"] and inspected["mesh"] == {"0": None, "1": 2}
    one, _ = said(capsys, "inspect", "p.mgx", "--mesh", "0=3", "--shape", "x=5x?")
    assert one["mesh"] == {"0": 3, "1": 2} and one["report"]["specialised"]["made"] == AHEAD
    assert said(capsys, "inspect", "p.mgx", "--mesh", "0=4", "--shape", "x=5x?", code=5)[0]["exit_code"] == 5
    ran, notes = said(capsys, "run", "p.mgx", "--mesh", "0=3", "--shape", "x=5x?", "--expect", "p.mlir")
    assert ran["ranks"] == 6 and ran["specialised"]["made"] == AHEAD and notes == ""
    ran, notes = said(capsys, "run", "p.mgx", "--devices", "8", "--shape", "x=7x12", "--expect", "p.mlir")
    assert ran["ranks"] == 8 and ran["specialised"]["made"] == AT_LOAD and "compiled now" in notes
    np.save("x.npy", rows(9))
    ran, _ = said(capsys, "run", "p.mgx", "--mesh", "0=1", "--input", "x=@x.npy", "--expect", "p.mlir")
    assert ran["outputs"][1]["type"] == "float32[9, 12]"
    compared, _ = said(capsys, "diff", "p.mgx", "p.mgx")
    assert compared["changed"] == {} and compared["before"]["0=2, x=6x12: devices"] == 4
    assert main(["inspect", "p.mgx"]) == 0
    assert "open until load: mesh axis 0, x: f32[?,12]" in " ".join(capsys.readouterr().out.split())


def test_commands_on_a_module_that_is_only_open(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, notes = said(capsys, *COMPILE)
    assert document["specialisations"] == [] and "whoever loads it needs the compiler" in notes
    refused, _ = said(capsys, "run", "p.mgx", code=1)
    assert refused["diagnostics"][0]["code"] == "MG0201"
    assert said(capsys, "run", "p.mgx", "--mesh", "0=2", code=1)[0]["diagnostics"][0]["code"] == "MG0601"
    assert said(capsys, "run", "p.mgx", "--mesh", "0=2", "--shape", "x=3x12")[0]["ranks"] == 4


def test_check_tries_all_that_are_named_and_plans_are_for_the_first(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, _ = said(capsys, "check", "p.mlir", "--mesh", "0=1|3", "--shape", "x=6x?|0x12|5x12", "--target", "cpu")
    shapes = [(trial["mesh"]["0"], trial["check"]["outputs"][0]["shape"][0]) for trial in document["trials"]]
    assert shapes == [(n, m) for n in (1, 3) for m in (6, 0, 5)] and all(t["check"]["ok"] for t in document["trials"])
    for command in ("explain", "report"):
        document, notes = said(capsys, command, "p.mlir", *NAMED, "--target", "cpu")
        assert document["mesh"] == {"0": 2, "1": 2} and "planned for 0=2, x=6x12, the first of 4" in notes


def test_combinations_that_contradict_the_program_are_left_out(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PROGRAM.replace("?x12", "?x?").replace("%w: tensor<12x8xf32>", "%w: tensor<?x8xf32>")
    Path("p.mlir").write_text(text.replace("tensor<12x8xf32>) ->", "tensor<?x8xf32>) ->"))
    document, notes = said(capsys, *COMPILE, "--mesh", "0=2,1=2", "--shape", "x=4x12|4x10", "--shape", "w=10x8|12x8")
    args = [each["specialised"]["args"] for each in document["specialisations"]]
    assert args == [{"x": [4, 12], "w": [12, 8]}, {"x": [4, 10], "w": [10, 8]}] and "2 of 4 combinations" in notes
    for shapes, code in (("w=10x8|11x8", "MG0104"), ("w=?x8|12x8", "MG0601")):
        refused, _ = said(capsys, *COMPILE, "--mesh", "0=2,1=2", "--shape", "x=4x12|4x10", "--shape", shapes, code=1)
        assert refused["diagnostics"][0]["code"] == code
    for words in (("--shape", "x=4x12|"), ("--shape", "x=4|axb")):
        assert said(capsys, *COMPILE, *words, code=2)[0]["diagnostics"][0]["code"] == "MG0001"
    for mesh in ("0=2|,1=2", "0=2|0,1=2", "0=2||3"):
        assert said(capsys, *COMPILE, "--mesh", mesh, code=1)[0]["diagnostics"][0]["code"] == "MG0201"


def test_meshes_by_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.mlir").write_text(STAGES)
    document, _ = said(capsys, *COMPILE, "--mesh", "a:x=2|3", "--mesh", "b:x=?|4", "--shape", "v=6|7")
    assert document["open"] == {"axes": ["a:x", "b:x"], "inputs": {"v": "f32[?]"}}
    sizes = [each["specialised"] for each in document["specialisations"]]
    assert [(s["mesh"]["a:x"], s["mesh"]["b:x"], s["args"]["v"]) for s in sizes] == [(2, 4, [6]), (2, 4, [7]), (3, 4, [6]), (3, 4, [7])]  # fmt: skip
    for b, made in ((4, AHEAD), (1, AT_LOAD)):
        words = ("run", "p.mgx", "--mesh", "a:x=3", "--mesh", f"b:x={b}", "--shape", "v=7", "--expect", "p.mlir")
        ran, _ = said(capsys, *words)
        assert ran["ranks"] == 3 + b and ran["specialised"]["made"] == made and ran["compared"][0]["ok"]


def test_sizes_that_do_not_matter_are_not_specialised(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.mlir").write_text(PROGRAM.replace("[[1], [0]]", "[[1]]").replace("?x12", "7x12").replace("?x8xf32", "7x8xf32"))  # fmt: skip
    document, notes = said(capsys, *COMPILE, "--mesh", "0=2|3")
    assert "specialisations" not in document and document["mesh"] == {"0": None, "1": 2} and "does not depend" in notes
