"""`.pt2` files: parameters as named inputs, structures of arguments and results, updated buffers, locations and
weights. Torch need not be installed.
"""

from __future__ import annotations

import io
import json
import shutil
import tracemalloc
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen import api, budget
from meshgen.cli import main
from meshgen.errors import MeshgenError, UsageError
from meshgen.runtime.sessions.torch_archive import strided
from tests.frontend.pytorch.archives import DATA_FOLDER

MESHES = [{"dp": 2, "tp": 2}, {"dp": 3}]


def stored(name: str) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(DATA_FOLDER / f"{name}.npz") as file:
        return dict(file)


@pytest.mark.parametrize("file", ["counter.pt2", "counter_new.pt2"])
def test_archive_reproduces_results_of_torch(file: str) -> None:
    executable = mg.compile(DATA_FOLDER / file, {"dp": 2}, in_specs={"x": mg.P("dp")}, target="cpu")
    reference = stored("counter")
    assert executable.signature.positional == ("x", "scale")
    results = executable(reference["arg0"], 2.0, shift=reference["arg2"])
    assert [*results] == ["result", "buffers"] and [*results["result"]] == ["y", "sums"]
    for actual, name in zip(
        (results["result"]["y"], *results["result"]["sums"]), ("result0", "result1", "result2"), strict=True
    ):
        np.testing.assert_allclose(actual, reference[name], rtol=1e-5, atol=1e-5)
    assert {*results["buffers"]} == {"bn.running_mean", "bn.running_var", "bn.num_batches_tracked", "steps"}
    for name, actual in results["buffers"].items():
        np.testing.assert_allclose(actual, reference[f"state.{name}"], rtol=1e-5)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_decoder_is_sharded_by_parameter_name_patterns(mesh: dict[str, int]) -> None:
    split = {"*.w[qkv].weight": mg.P("tp"), "*.w[13].weight": mg.P("tp"), "*.wo.weight": mg.P(None, "tp"), "*.w2.weight": mg.P(None, "tp")}  # fmt: skip
    specs = {"ids": mg.P("dp")} | (split if "tp" in mesh else {})
    executable = mg.compile(DATA_FOLDER / "decoder.pt2", mesh, in_specs=specs, target="cpu")
    reference = stored("decoder")
    np.testing.assert_allclose(executable(reference["arg0"]), reference["result0"], rtol=1e-5, atol=1e-5)
    if "tp" in mesh:
        assert executable.comms.counts == {"all_reduce": 4}


def test_operations_have_user_locations_and_module_scopes() -> None:
    executable = mg.compile(
        DATA_FOLDER / "decoder.pt2", {"tp": 2}, in_specs={"*.wo.weight": mg.P(None, "tp")}, target="cpu"
    )
    locations_and_scopes = {(str(node.loc), node.loc.scope) for node in executable.stages["import"].graph.nodes if node.loc and node.op == "dot_general"}  # fmt: skip
    files = {location.rpartition(":")[0] for location, _ in locations_and_scopes}
    assert files == {"tests/frontend/pytorch/archives.py"}
    assert {"layers/0/attn/wq", "layers/1/attn", "layers/1/w2", "head"} <= {scope for _, scope in locations_and_scopes}
    assert "layers/*/attn/wo" in executable.explain()


def test_weights_are_stored_in_module_or_passed_to_session(tmp_path: Path) -> None:
    reference = stored("decoder")
    executable = mg.compile(DATA_FOLDER / "decoder.pt2", {"dp": 2}, in_specs={"ids": mg.P("dp")}, target="cpu")
    executable.save(tmp_path / "with.mgx")
    np.testing.assert_allclose(
        mg.load(tmp_path / "with.mgx")(reference["arg0"]), reference["result0"], rtol=1e-5, atol=1e-5
    )
    executable.save(tmp_path / "without.mgx", weights={})
    with mg.load(tmp_path / "without.mgx").session(weights=DATA_FOLDER / "decoder.pt2") as session:
        np.testing.assert_allclose(np.asarray(session(reference["arg0"])), reference["result0"], rtol=1e-5, atol=1e-5)


def test_command_line_compiles_and_checks_archives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "decoder.mgx")
    command = [
        "compile",
        str(DATA_FOLDER / "decoder.pt2"),
        "--mesh",
        "dp=2",
        "--spec",
        "ids=dp,_",
        "--target",
        "cpu",
        "-o",
        out,
    ]
    assert main(command) == 0, capsys.readouterr().err
    assert main(["check", str(DATA_FOLDER / "decoder.pt2"), "--mesh", "dp=2"]) == 0


def changed(tmp_path: Path, member: str, edit: Any) -> Path:
    """Write a copy of an archive in which `edit` changed the content of `member`. If `edit` is None, the copy lacks the
    member.
    """
    path = tmp_path / "changed.pt2"
    with zipfile.ZipFile(DATA_FOLDER / "counter.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith(member):
                if edit is None:
                    continue
                content = edit(content)
            new.writestr(name, content)
    return path


def schema_seven(content: bytes) -> bytes:
    document = json.loads(content)
    document["schema_version"]["major"] = 7
    return json.dumps(document).encode()


@pytest.mark.parametrize(("member", "edit", "text"), [
    ("models/model.json", None, "it has 0 programs"),
    ("models/model.json", schema_seven, "schema 8 is read"),
    ("models/model.json", lambda _: b"{", "is not JSON"),
    ("models/model.json", lambda _: b"[]", "is not an object"),
    ("model_constants_config.json", lambda content: content.replace(b'"sizes"', b'"size"'), "is malformed"),
    ("constants/tensor_0", lambda content: content[:2], "do not hold its elements"),
    ("constants/tensor_0", None, "cannot be read: it is missing"),
    ("models/model.json", lambda content: content.rstrip()[:-1] + b', "graph_module": 3}', "the key 'graph_module' stands twice"),
])  # fmt: skip
def test_damaged_archive_is_rejected(tmp_path: Path, member: str, edit: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text) as error:
        mg.compile(changed(tmp_path, member, edit), {"dp": 2}, target="cpu")
    assert error.value.diagnostics[0].code == "MG0002"


@pytest.mark.parametrize("seed", range(3))
def test_damaged_program_is_planned_or_rejected(tmp_path: Path, seed: int) -> None:
    """Remove or swap parts of the program's JSON document, or give them another type."""
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(12):
        try:
            api.plan(changed(tmp_path, "models/model.json", partial(damaged, rng)), {"dp": 2}, target="cpu")
        except MeshgenError:
            refused += 1
    assert refused


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    document = json.loads(content)
    container = document["graph_module"]
    while isinstance(container, (dict, list)) and container:
        keys = [*container] if isinstance(container, dict) else [*range(len(container))]
        key = keys[rng.integers(len(keys))]
        if not isinstance(container[key], (dict, list)) or rng.random() < 0.2:
            container[key] = [None, -1, 10**12, "x", [], {}][rng.integers(6)]
            break
        container = container[key]
    return json.dumps(document).encode()


def test_unreadable_archive_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="MG0002"):
        mg.compile(tmp_path / "missing.pt2", {"dp": 2}, target="cpu")
    with pytest.raises(UsageError, match="MG0002"):
        mg.compile("a\0b.pt2", {"dp": 2}, target="cpu")
    encrypted = bytearray((DATA_FOLDER / "counter.pt2").read_bytes())
    # sets the encryption bit in the local and the central header
    for signature, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        offset = encrypted.find(signature)
        while offset >= 0:
            encrypted[offset + flags] |= 1
            offset = encrypted.find(signature, offset + 4)
    (tmp_path / "encrypted.pt2").write_bytes(encrypted)
    with pytest.raises(UsageError, match="MG0002"):
        mg.compile(tmp_path / "encrypted.pt2", {"dp": 2}, target="cpu")
    (tmp_path / "text.pt2").write_text("no zip")
    with pytest.raises(UsageError, match=r"cannot be read as a \.pt2 archive"):
        mg.compile(tmp_path / "text.pt2", {"dp": 2}, target="cpu")
    shutil.copy(DATA_FOLDER / "counter.pt2", tmp_path / "renamed.zip")
    assert mg.compile(tmp_path / "renamed.zip", {"dp": 2}, target="cpu").name == "main"


def test_member_larger_than_memory_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.pt2"
    with zipfile.ZipFile(DATA_FOLDER / "counter.pt2") as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + b" " * ((1 << 26) if name.endswith("models/model.json") else 0))
    assert path.stat().st_size < 1 << 18
    monkeypatch.setattr(budget, "free_bytes", lambda: 1 << 26)
    tracemalloc.start()
    with pytest.raises(
        UsageError, match=r"MG0002.*models/model\.json' takes 67,\d+,\d+ B of memory, but 67,108,864 B are free"
    ):
        mg.compile(path, {"dp": 2}, target="cpu")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22


def test_expanded_tensor_larger_than_memory_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    meta = {"dtype": 7, "sizes": [{"as_int": 1 << 20}], "strides": [{"as_int": 0}], "storage_offset": {"as_int": 0}}
    monkeypatch.setattr(budget, "free_bytes", lambda: 1 << 22)
    assert strided("w", bytes(4), meta).shape == (1 << 20,)
    monkeypatch.setattr(budget, "free_bytes", lambda: (1 << 22) - 1)
    with pytest.raises(UsageError, match=r"MG0002: 'w' takes 4,194,304 B of memory"):
        strided("w", bytes(4), meta)


def test_archive_with_duplicate_member_is_rejected(tmp_path: Path) -> None:
    shutil.copy(DATA_FOLDER / "counter.pt2", tmp_path / "twice.pt2")
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(tmp_path / "twice.pt2", "a") as file:
        name = next(member for member in file.namelist() if member.endswith("models/model.json"))
        file.writestr(name, b"{}")
    with pytest.raises(UsageError, match=r"MG0002.*models/model\.json' stands twice"):
        mg.compile(tmp_path / "twice.pt2", {"dp": 2}, target="cpu")


def test_truncated_archive_is_reported_as_damaged(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as file:
        file.writestr("model/data.pkl", b"")
    content = changed(tmp_path, "data/sample_inputs/model.pt", lambda _: inner.getvalue()).read_bytes()
    after_inner = content.index(inner.getvalue()) + len(inner.getvalue())
    for length in (after_inner, after_inner + 20, len(content) - 1, 40):
        (tmp_path / "cut.pt2").write_bytes(content[:length])
        with pytest.raises(UsageError, match=r"MG0002.*it is damaged or cut off"):
            mg.compile(tmp_path / "cut.pt2", {"dp": 2}, target="cpu")


def with_node(target: str, *integers: int) -> Any:
    """Return an edit that inserts a node with integer operands before all others."""

    def edit(content: bytes) -> bytes:
        document = json.loads(content)
        inputs = [{"name": "", "arg": {"as_int": integer}, "kind": 1} for integer in integers]
        node = {"target": target, "inputs": inputs, "outputs": [{"as_sym_int": {"as_name": "n"}}], "metadata": {}}
        document["graph_module"]["graph"]["nodes"].insert(0, node)
        return json.dumps(document).encode()

    return edit


@pytest.mark.parametrize(("edit", "code"), [
    (with_node("_operator.pow", 9, 9**9), "MG0108"),
    (with_node("_operator.mul", 1 << 40, 1 << 40), "MG0108"),
    (with_node("math.factorial", 10**9), "MG0103"),
    (lambda content: content.replace(b'{"as_int": 16}', b'{"as_expr": {"expr_str": "9**9**9**9", "hint": null}}'), "MG0108"),
])  # fmt: skip
def test_expensive_integer_arithmetic_of_archive_is_rejected(tmp_path: Path, edit: Any, code: str) -> None:
    with pytest.raises(MeshgenError) as error:
        mg.compile(changed(tmp_path, "models/model.json", edit), {"dp": 2}, target="cpu")
    assert [diagnostic.code for diagnostic in error.value.diagnostics] == [code]
