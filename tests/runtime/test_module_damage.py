"""Tests of damaged and forged module files, which are detected before anything in them is used."""

from __future__ import annotations

import hashlib
import json
import random

import numpy as np
import pytest

from meshgen.errors import MeshgenError, ModuleError, RuntimeFailure, ScheduleError, UsageError
from meshgen.runtime.loading import load
from meshgen.runtime.module_file import container, limits, tensors
from tests.codegen.programs import mixed
from tests.codegen.test_package import code
from tests.runtime.module_files import normal, saved
from tests.runtime.scrambled import scramble


def contents(loaded):
    return (loaded.manifest.plan.items, loaded.manifest.inputs, {n: c.tolist() for n, c in loaded._constants.items()})


def test_every_flipped_byte_is_detected(tmp_path):
    path = tmp_path / "m.mgx"
    good = contents(saved(path, mixed(), weights={"a": normal(4, 3)}, **code()))
    raw = path.read_bytes()
    rng = random.Random(11)
    offsets = {*range(64), *range(len(raw) - 400, len(raw)), *(rng.randrange(len(raw)) for _ in range(500))}
    detected = 0
    for offset in sorted(offsets):
        broken = bytearray(raw)
        broken[offset] ^= rng.randrange(1, 256)
        path.write_bytes(broken)
        try:
            assert contents(load(path)) == good
        except ModuleError as error:
            assert error.exit_code == 1
            detected += 1
    assert detected == len(offsets)  # every byte of the file is checked


def test_truncated_or_extended_file_is_detected(tmp_path):
    path = tmp_path / "m.mgx"
    saved(path, mixed())
    raw = path.read_bytes()
    rng = random.Random(12)
    for size in {0, 1, 3, 4, 21, 22, len(raw) - 1, *(rng.randrange(len(raw)) for _ in range(100))}:
        path.write_bytes(raw[:size])
        with pytest.raises(ModuleError):
            load(path)
    for extra in (b"\0", raw):
        path.write_bytes(raw + extra)
        with pytest.raises(ModuleError):
            load(path)


def test_other_file_is_reported_as_no_module(tmp_path):
    path = tmp_path / "m.mgx"
    for text in (b"", b"hello", b"\x7fELF" + bytes(100)):
        path.write_bytes(text)
        with pytest.raises(ModuleError, match="MG0501"):
            load(path)
    container.write(path, {"other.txt": b"x"})
    with pytest.raises(ModuleError, match=r"MG0501.*no manifest"):
        load(path)
    for missing in (tmp_path / "none.mgx", tmp_path):
        with pytest.raises(UsageError, match="MG0002"):
            load(missing)


def forged(path, change=lambda manifest: None, members=None):
    """Write a copy of the module with a changed manifest and corrected digests, and return its path."""
    container_file = container.Container(path)
    files = {name: bytes(container_file[name]) for name in container_file} | (members or {})
    manifest = json.loads(files["manifest.json"])
    change(manifest)
    names = [n for n in files if not n.startswith("manifest.")]
    manifest["files"] = {n: hashlib.sha256(files[n]).hexdigest() for n in names}
    files["manifest.json"] = json.dumps(manifest).encode()
    files["manifest.sha256"] = hashlib.sha256(files["manifest.json"]).hexdigest().encode()
    other = path.with_name("forged.mgx")
    container.write(other, files)
    return other


def test_forgery_without_change_loads_same_module(tmp_path):
    path = tmp_path / "m.mgx"
    good = saved(path, mixed())
    assert contents(load(forged(path))) == contents(good)


def test_newer_module_format_is_reported(tmp_path):
    saved(tmp_path / "m.mgx", mixed())
    with pytest.raises(ModuleError, match=r"MG0503.*format 99.*reads up to 14"):
        load(forged(tmp_path / "m.mgx", lambda m: m.update(format=99)))


def test_older_module_format_is_reported(tmp_path):
    saved(tmp_path / "m.mgx", mixed())
    with pytest.raises(ModuleError, match=r"MG0503.*format 1 of an older meshgen"):
        load(forged(tmp_path / "m.mgx", lambda m: m.update(format=1)))


def at(*keys, value):
    def change(manifest):
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        at("format", value="1"),
        at("schedule", 0, "stream", value=-1),
        at("schedule", 0, "stream", value=True),
        at("schedule", 0, "inputs", value=None),
        at("schedule", 0, "waits", value=[1.5]),
        at("schedule", 0, "attrs", value={"axes": {"evil": 1}}),
        at("buffers", 0, "dtype", value="object"),
        at("buffers", 0, "shape", value=[1 << 40, 1 << 40]),
        at("buffers", 0, "offset", value=-256),
        at("inputs", 0, "buffer", value=99),
        at("inputs", 0, "shape", value=[40, 3]),
        at("inputs", 0, "sharding", value={"dims": [["nowhere"], []]}),
        at("inputs", 0, "stored", value=True),
        at("arguments", value="both"),
        at("mesh", value={"name": "m", "axes": [{"name": "x", "size": 0, "bandwidth": 1.0, "latency": 1.0}]}),
        at("kernels", "add", "body", "nodes", 0, "operands", value=[7, 7]),
        at("kernels", "add", "body", "nodes", 0, "op", value="nonsense"),
        at("kernels", "add", "body", "outputs", value=[99]),
        at("kernels", "scale", "body", "nodes", 0, "results", 0, "type", 1, 0, value=None),
        at("kernels", "add", "grid", value=[1, 1]),
        at("kernels", "add", "source", value="kernels/none.py"),
        at("kernels", "add", "params", value=[{"kind": "operand", "index": 2, "axes": []}]),
        at("kernels", "add", "params", value=[{"kind": "result", "index": -1, "axes": []}]),
        at("kernels", "add", "params", value=[{"kind": "coordinate", "index": -1, "axes": ["z"]}]),
        at("kernels", "add", "params", value=[{"kind": "pointer", "index": 0, "axes": []}]),
        at("kernels", value={}),
        at("kernels", value=[]),
        at("arena_bytes", value=1 << 50),
        at("arena_bytes", value=0),
        at("arena_bytes", value="big"),
        at("step_seconds", value="soon"),
        at("step_seconds", value="1"),
        at("step_seconds", value=-1.0),
        at("step_seconds", value=float("inf")),
        at("schedule", 0, "seconds", value=float("nan")),
        at("exposures", value=[{"item": 99, "hidden": 0.0, "exposed": 0.0}]),
        at("buffers", 0, "bytes", value=7),
        at("inputs", 0, "stored", value=0),
        at("toolchain", value={"sm_90": float("nan")}),
        at("report", value={"specialised": {"made": "now", "mesh": 3}}),
        at("kernels", "add", "params", value=[{"kind": "operand", "index": 0.5, "axes": []}]),
        at("schedule", value=[]),
        at("report", value=3),
    ],
)
def test_forged_manifest_is_rejected(tmp_path, change):
    saved(tmp_path / "m.mgx", mixed())
    with pytest.raises((ModuleError, ScheduleError)) as caught:
        load(forged(tmp_path / "m.mgx", change))
    assert caught.value.exit_code == 1


BINARY = ("kernels", "add", "binaries", "sm_90")


@pytest.mark.parametrize(
    "change, message",
    [
        (at("kernels", "add", "grid", value=[1 << 31, 1, 1]), "its grid .* is larger than"),
        (at("kernels", "add", "grid", value=[1, 1 << 16, 1]), "its grid .* is larger than"),
        (at(*BINARY, "threads", value=0), "its block for sm_90 has 0 threads"),
        (at(*BINARY, "threads", value=1025), "its block for sm_90 has 1025 threads"),
        (at(*BINARY, "shared", value=1 << 40), "of shared memory"),
        (at(*BINARY, "metadata", "global_scratch_size", value=1 << 54), "bytes of scratch"),
        (at(*BINARY, "metadata", "profile_scratch_size", value="much"), "expected a non-negative integer, got 'much'"),
    ],
)
def test_launch_beyond_cuda_limits_is_rejected(tmp_path, change, message):
    saved(tmp_path / "m.mgx", mixed(), **code())
    with pytest.raises(ModuleError, match=f"MG0502.*({message})"):
        load(forged(tmp_path / "m.mgx", change))


def test_unknown_architecture_is_rejected(tmp_path):
    saved(tmp_path / "m.mgx", mixed(), **code())

    def change(manifest):
        binaries = manifest["kernels"]["add"]["binaries"]
        binaries["gpu"] = binaries.pop("sm_90")

    with pytest.raises(ModuleError, match=r"MG0502.*unknown architecture 'gpu'"):
        load(forged(tmp_path / "m.mgx", change))


def add_region(manifest):
    """Add a region to a launch that is not control flow. The region uses a nonexistent buffer."""
    step = {name: manifest[name] for name in ("buffers", "arena_bytes", "schedule", "step_seconds", "exposures")}
    step = json.loads(json.dumps(step)) | {"inputs": [], "outputs": []}
    step["schedule"][0]["inputs"] = [99]
    manifest["schedule"][0]["regions"] = [step]


def add_unfilled_input(manifest):
    """Add an input buffer that no argument fills, although launches could read it."""
    buffer = len(manifest["buffers"])
    like = manifest["buffers"][manifest["inputs"][0]["buffer"]]
    ghost = {"name": "ghost", "storage": buffer, "offset": manifest["arena_bytes"]}
    manifest["buffers"].append({**like, **ghost})
    manifest["arena_bytes"] += 256


def add_second_name(manifest):
    manifest["inputs"].append({**manifest["inputs"][0], "name": "other"})


def add_second_input_of_a_name(manifest):
    manifest["inputs"].append(dict(manifest["inputs"][0]))


@pytest.mark.parametrize(
    "change, pattern",
    [
        (add_region, "has regions, but is not control flow"),
        (add_unfilled_input, "'ghost' of kind 'input' must be once in the signature, not 0 times"),
        (add_second_name, "must be once in the signature, not 2 times"),
        (add_second_input_of_a_name, "must be distinct"),
    ],
)
def test_forged_step_is_rejected_with_reason(tmp_path, change, pattern):
    saved(tmp_path / "m.mgx", mixed())
    with pytest.raises(MeshgenError, match=pattern):
        load(forged(tmp_path / "m.mgx", change))


def test_forged_constants_member_is_rejected(tmp_path):
    path = tmp_path / "m.mgx"
    saved(path, mixed())
    wrong = [np.zeros(5, np.float32), np.zeros(6, np.int32)]
    for member in (
        *(tensors.encode({"2": w}) for w in wrong),
        tensors.encode({}),
        tensors.encode({"x": wrong[0]}),
        b"?",
    ):
        with pytest.raises(ModuleError, match="MG0502"):
            load(forged(path, members={"constants.safetensors": member}))


def huge(manifest):
    body = next(iter(manifest["kernels"].values()))["body"]
    body["nodes"].append({"op": "iota", "operands": [], "attrs": {"dim": 0}, "results": [{"type": ["f32", [1 << 38]]}]})


def test_huge_kernel_value_is_rejected_before_allocation(tmp_path):
    saved(tmp_path / "m.mgx", mixed())
    module = load(forged(tmp_path / "m.mgx", huge))
    with pytest.raises(RuntimeFailure, match=r"MG0604.*do not fit into this machine's memory"):
        module(normal(4, 3), np.float32(0.5))


def test_forged_text_or_header_is_rejected(tmp_path):
    path = tmp_path / "m.mgx"
    saved(path, mixed(), **code() | {"stages": {"partition": "text"}})
    members = container.Container(path)
    stage, source = (next(n for n in members if n.startswith(head)) for head in ("stages/", "kernels/"))
    header = b'{"2":{"dtype":"F32","shape":[1e400],"data_offsets":[0,0]}}'
    for name, content in (
        (stage, b"\xff\xfe"),
        (source, b"\xff\xfe"),
        ("stages/99_other.mlir", b""),
        ("constants.safetensors", len(header).to_bytes(8, "little") + header),
    ):
        with pytest.raises(ModuleError, match="MG0502"):
            # loading succeeds, because a stage is decompressed only when someone reads it
            assert load(forged(path, members={name: content})).stages


@pytest.mark.parametrize(
    "change",
    [
        at("name", value="\x1b[2Jevil"),
        at("name", value="\ud800"),
        at("buffers", 0, "name", value="a\nb"),
        at("inputs", 0, "name", value="\x9b31m"),
        at("inputs", 0, "sharding", value={"dims": [["x"], []], "partial": [["x", "evil"]]}),
        at("inputs", 0, "sharding", value={"dims": [["x:(0)2"], []]}),
        at("schedule", 0, "attrs", value={"peer": 5}),
        at("schedule", 0, "attrs", value={"axes": {"tuple": [1]}}),
        at("schedule", 0, "attrs", value={"big": 1 << 70}),
        at("kernels", "add", "body", "nodes", 0, "results", value=[{"type": ["f32", [2, 3]]}] * 2),
        at("toolchain", value={"sm_90": 1 << 100}),
    ],
)
def test_forged_names_and_values_are_rejected(tmp_path, change):
    saved(tmp_path / "m.mgx", mixed())
    with pytest.raises(ModuleError, match="MG0502") as caught:
        load(forged(tmp_path / "m.mgx", change))
    assert not any(mark in str(caught.value) for mark in ("\x1b", "\ud800", "\x9b"))


def test_counts_beyond_limits_are_rejected(tmp_path, monkeypatch):
    saved(tmp_path / "m.mgx", mixed())
    for word in ("mesh axes", "inputs", "outputs", "kernels", "launches", "buffers", "operations in kernels"):
        monkeypatch.setitem(limits.LIMITS, word, 0)
        with pytest.raises(ModuleError, match=f"MG0504.* {word}; the limit is 0"):
            load(tmp_path / "m.mgx")
        with pytest.raises(ModuleError, match=f"MG0504.* {word}; the limit is 0"):
            saved(tmp_path / "other.mgx", mixed())
        monkeypatch.undo()
    load(tmp_path / "m.mgx")


def test_random_manifest_changes_never_crash_loader(tmp_path):
    path = tmp_path / "m.mgx"
    saved(path, mixed(), **code())
    rng = random.Random(13)
    junk = [None, True, -1, 0, 1 << 70, 0.5, "", "x", [], {}, [[]], {"a": 1}, [0, 0, 0]]
    refused = 0
    for _ in range(200):
        try:
            load(forged(path, lambda manifest: scramble(manifest, rng, junk)))
        except MeshgenError as error:
            assert error.exit_code == 1
            refused += 1
    assert refused > 100
