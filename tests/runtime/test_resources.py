"""Tests of large constants: a module stores them once, stage texts refer to them, and `stages` returns complete texts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ModuleError
from meshgen.ir.graph import DTYPES
from meshgen.mlir.text import parse_text, print_text
from meshgen.runtime.module_file import container, tensors
from meshgen.runtime.module_file.resources import LEAST_BYTES, RESOURCES, Resources

SIZE = 64
DTYPES_OF_CONSTANTS = ("f32", "bf16", "f8E4M3FN", "i1", "i4", "ui8", "i64", "c64")


def elements(dtype: str, size: int, seed: int = 0) -> np.ndarray:
    """Return a square array of random elements."""
    random = np.random.default_rng(seed)
    if dtype in ("i1", "i4", "ui8", "i64"):
        return random.integers(0, 2 if dtype == "i1" else 8, (size, size)).astype(DTYPES[dtype])
    return random.standard_normal((size, size)).astype(DTYPES[dtype])


def hexadecimal(array: np.ndarray) -> str:
    return f'"0x{tensors.content_of(array).hex().upper()}"'


def with_unused(used: np.ndarray, unused: np.ndarray) -> str:
    """Return a program with a second constant that no later stage uses."""
    return f"""
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<{SIZE}x{SIZE}xf32>) -> tensor<{SIZE}x{SIZE}xf32> {{
  %w = stablehlo.constant dense<{hexadecimal(used)}> : tensor<{SIZE}x{SIZE}xf32>
  %u = stablehlo.constant dense<{hexadecimal(unused)}> : tensor<{SIZE}x{SIZE}xf32>
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<{SIZE}x{SIZE}xf32>, tensor<{SIZE}x{SIZE}xf32>) -> tensor<{SIZE}x{SIZE}xf32>
  return %0 : tensor<{SIZE}x{SIZE}xf32>
}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    executable = mg.compile(with_unused(elements("f32", SIZE), elements("f32", SIZE, 1)), target="cpu")
    executable.save(tmp_path / "m.mgx")
    return tmp_path / "m.mgx"


def forged(path: Path, change: dict[str, bytes], dropped: str = "") -> Path:
    """Replace or drop members of the module file in place, and correct the digests."""
    container_file = container.Container(path)
    files = {name: bytes(container_file[name]) for name in container_file if name != dropped} | change
    manifest = json.loads(files["manifest.json"])
    manifest["files"] = {n: hashlib.sha256(files[n]).hexdigest() for n in files if not n.startswith("manifest.")}
    files["manifest.json"] = json.dumps(manifest).encode()
    files["manifest.sha256"] = hashlib.sha256(files["manifest.json"]).hexdigest().encode()
    container.write(path, files)
    return path


def test_each_constant_is_stored_once(path: Path) -> None:
    content = path.read_bytes()
    for array in (elements("f32", SIZE), elements("f32", SIZE, 1)):
        assert content.count(array.tobytes()) == 1
        assert array.tobytes().hex().upper().encode() not in content
    members = container.Container(path)
    assert [*tensors.decode(members["constants.safetensors"])] != [*tensors.decode(members[RESOURCES])]
    assert len(tensors.decode(members[RESOURCES])) == 1, "the plan's constants are there already"


def test_loaded_stage_texts_are_complete(path: Path) -> None:
    executable = mg.compile(with_unused(elements("f32", SIZE), elements("f32", SIZE, 1)), target="cpu")
    stages = mg.load(path).stages
    for stage in executable.stages:
        assert print_text(parse_text(stages[stage])) == executable.as_text(stage), stage
        assert "dense_resource" in stages[stage] and "dense_resource" not in executable.as_text(stage)


@pytest.mark.parametrize("dtype", DTYPES_OF_CONSTANTS)
def test_resource_constants_of_every_width_round_trip(dtype: str, tmp_path: Path) -> None:
    kind = {"c64": "complex<f32>"}.get(dtype, dtype)
    array, type = elements(dtype, SIZE), f"tensor<{SIZE}x{SIZE}x{kind}>"
    literal = hexadecimal(array) if dtype != "i1" else str(array.tolist()).lower()
    text = f"func.func @main(%a: {type}) -> ({type}, {type}) {{\n  %c = stablehlo.constant dense<{literal}> : {type}\n  return %c, %a : {type}, {type}\n}}\n"
    executable = mg.compile(text, {"x": 2}, target="cpu")
    executable.save(tmp_path / "m.mgx")
    text = mg.load(tmp_path / "m.mgx").stages["import"]
    assert "dense_resource<sha256_" in text
    (node,) = [node for node in parse_text(text).graph.nodes if node.op == "constant"]
    assert node.attrs.value.tobytes() == array.tobytes() and node.attrs.value.dtype == array.dtype


def test_small_constants_and_splats_stay_in_stage_text(tmp_path: Path) -> None:
    def program(x: mg.Tensor) -> mg.Tensor:
        return x * np.arange(16, dtype=np.float32) + np.full((1 << 12, 16), 2.0, np.float32)

    executable = mg.compile(program, {"x": 2}, args=[mg.spec(f"f32[{1 << 12},16]")], target="cpu")
    executable.save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    assert RESOURCES not in container.Container(tmp_path / "m.mgx")
    assert all(text == executable.as_text(stage) for stage, text in module.stages.items())


def test_missing_resource_is_rejected(path: Path) -> None:
    module = mg.load(forged(path, {}, dropped=RESOURCES))
    with pytest.raises(
        ModuleError, match=r"MG0502.*'stages/00_import.mlir.gz' refers to a constant that is not in the file"
    ):
        assert module.stages


def test_resource_with_changed_bytes_is_rejected(path: Path) -> None:
    member = container.Container(path)[RESOURCES]
    module = mg.load(forged(path, {RESOURCES: bytes(member[:-1]) + bytes([member[-1] ^ 1])}))
    with pytest.raises(ModuleError, match=r"MG0502.*refers to a constant that is not in the file"):
        assert module.stages


def test_malformed_resources_member_is_rejected(path: Path) -> None:
    module = mg.load(forged(path, {RESOURCES: b"nothing"}))
    with pytest.raises(ModuleError, match="MG0502"):
        assert module.stages


def test_multi_mesh_program_stores_each_constant_once(tmp_path: Path) -> None:
    def program(x: mg.Tensor) -> mg.Tensor:
        first = mg.annotate(x @ bits_of(0), mg.P("dp", mesh="one"))
        return mg.annotate(first @ bits_of(1), mg.P("x", mesh="two"))

    def bits_of(seed: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal((SIZE, SIZE)).astype(np.float32)

    executable = mg.compile(
        program, {"one": {"dp": 2}, "two": {"x": 2}}, args=[mg.spec(f"f32[{SIZE},{SIZE}]")], target="cpu"
    )
    executable.save(tmp_path / "m.mgx")
    content, stages = (tmp_path / "m.mgx").read_bytes(), mg.load(tmp_path / "m.mgx").stages
    assert all(content.count(bits_of(seed).tobytes()) == 1 for seed in (0, 1))
    assert print_text(parse_text(stages["import"])) == executable.as_text("import")


def test_resource_name_is_digest_of_content() -> None:
    resources, content = Resources(), bytes(LEAST_BYTES)
    names = {resources.name(content), resources.name(bytes(bytearray(LEAST_BYTES))), resources.name(b"1" * LEAST_BYTES)}
    assert len(names) == 2 and names == {*resources.by_name}
    assert f"sha256_{hashlib.sha256(content).hexdigest()}" in names
