"""Modules and commands with several meshes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.errors import MeshgenError, ModuleError
from meshgen.ir.text import print_text
from meshgen.pipeline import STAGES
from meshgen.runtime.manifest import PARTS_FORMAT
from tests.sharding.meshes_programs import (
    MESHES,
    TYPES,
    traced,
    two_stages,
)


def test_modules_are_saved_loaded_and_run(tmp_path: Path) -> None:
    specs = {"x": mg.P("dp", mesh="a")}
    exe = mg.compile(two_stages, MESHES, args=TYPES, in_specs=specs, target="cpu")
    rng = np.random.default_rng(0)
    x, w0, w1 = (rng.standard_normal(shape).astype("f4") for shape in ((10, 7), (7, 6), (6, 5)))
    path = tmp_path / "p.mgx"
    exe.save(path, weights={"w1": w1})
    loaded = mg.load(path)
    assert [b.name for b in loaded.inputs] == ["x", "w0"] and loaded.ranks == 7
    wanted = np.tanh(x @ w0) @ w1
    for result in (exe(x, w0, w1), loaded(x, w0), loaded.run({"w0": w0, "x": x}, "interpret")[0]):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)
    assert set(loaded.stages) == {*STAGES, "import"}
    again = tmp_path / "q.mgx"
    mg.compile(two_stages, MESHES, args=TYPES, in_specs=specs, target="cpu").save(again, weights={"w1": w1})
    assert path.read_bytes() == again.read_bytes()


def test_commands_know_of_several_meshes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "p.mlir", tmp_path / "p.mgx"
    file.write_text(print_text(traced()))
    assert main(["check", str(file), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["check"]["ok"] and record["mesh"] == {"a": {"dp": 2, "tp": 2}, "b": {"x": 3}}
    assert [row["mesh"] for row in record["collectives"]] == ["a", "b"] and len(record["parts"]) == 2
    assert main(["explain", str(file)]) == 0
    text = capsys.readouterr().out
    assert "transfer_send" in text and "@b" in text
    assert main(["compile", str(file), "--target", "cpu", "-o", str(out)]) == 0
    assert main(["inspect", str(out), "--schedule"]) == 0
    assert "transfer_recv from @a" in capsys.readouterr().out
    assert main(["inspect", str(out), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["parts"]) == 2
    assert main(["run", str(out), "--expect", str(file)]) == 0
    assert main(["diff", str(out), str(out)]) == 0
    assert main(["opt", str(file), "--passes", "propagate,materialize"]) == 0
    assert "shard.transfer_send" in capsys.readouterr().out


def test_damaged_programs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.mgx"
    mg.compile(two_stages, MESHES, args=TYPES, in_specs={"x": mg.P("dp", mesh="a")}, target="cpu").save(path)
    content = path.read_bytes()
    assert f'"format": {PARTS_FORMAT}'.encode() in content
    for byte in range(0, len(content), 997):
        broken = bytearray(content)
        broken[byte] ^= 1
        path.write_bytes(bytes(broken))
        with pytest.raises(MeshgenError):
            mg.load(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModuleError):
        mg.load(path)
