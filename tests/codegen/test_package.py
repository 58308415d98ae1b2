from __future__ import annotations

import gzip
import json
import os
import zipfile

import numpy as np
import pytest

from meshgen.codegen.building.build import BuiltKernel
from meshgen.codegen.packaging.package import write_module
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.errors import ArgumentError, Location, ScheduleError, UsageError
from meshgen.runtime.module_file import container, tensors
from meshgen.runtime.module_file.container import LINE, PAGE, Entry, layout
from meshgen.runtime.module_file.manifest import FORMAT
from tests.codegen.programs import costs, layers, mixed


class FakeSource:
    """A stand-in for the kernel source that the generator returns."""

    def __init__(self, name: str, operands: int):
        self.text = f"# {name}\n"
        self.entry = name
        self.params = [*(("operand", i) for i in range(operands)), ("result", 0), ("coordinate", ("x",))]
        self.grid = (4,)
        self.constants = {"BLOCK": 256}
        self.num_warps, self.num_stages, self.flops, self.bytes = 4, 2, 10.0, 20.0
        self.template = "map"


def built(cubin: bytes) -> BuiltKernel:
    metadata = {"name": "k", "shared": 0}
    return BuiltKernel(cubin, "k", 20, 0, 0, 0, 128, 4, {"total": 10}, metadata, 0.1, False, b"// of " + cubin)


def write(path, module=None, **options):
    module = module or mixed()
    return write_module(path, module, schedule(module, costs=costs()), **options)


def code():
    sources = {"add": FakeSource("add", 2), "scale": FakeSource("scale", 2)}
    binaries = {("add", "sm_90"): built(b"same"), ("scale", "sm_90"): built(b"same"), ("add", "sm_80"): built(b"other")}
    return {"sources": sources, "built": binaries, "stages": {"import": "// a\n", "fuse": "// b\n"}}


def test_module_is_a_valid_zip_file(tmp_path):
    write(tmp_path / "m.mgx", **code())
    with zipfile.ZipFile(tmp_path / "m.mgx") as file:
        assert file.testzip() is None
        assert file.namelist() == sorted(file.namelist())
        assert {i.compress_type for i in file.infolist()} == {zipfile.ZIP_STORED}
        assert gzip.decompress(file.read("stages/05_fuse.mlir.gz")) == b"// b\n"
        assert file.read("kernels/add.py") == b"# add\n"
        # Both kernels have the same cubin on sm_90: it is stored once.
        assert [n for n in file.namelist() if n.startswith("cubins/")] == [
            "cubins/sm_80/add.cubin",
            "cubins/sm_90/add.cubin",
        ]
        assert [n for n in file.namelist() if n.startswith("ptx/")] == ["ptx/sm_80/add.ptx", "ptx/sm_90/add.ptx"]
        assert file.read("ptx/sm_90/add.ptx") == b"// of same"


def test_manifest_contains_launch_parameters(tmp_path):
    write(tmp_path / "m.mgx", **code())
    with zipfile.ZipFile(tmp_path / "m.mgx") as file:
        manifest = json.loads(file.read("manifest.json"))
    assert manifest["format"] == FORMAT
    assert [i["name"] for i in manifest["inputs"]] == ["a", "s"]
    assert manifest["inputs"][0]["shape"] == [4, 3] and manifest["inputs"][0]["local_shape"] == [2, 3]
    kernel = manifest["kernels"]["scale"]
    assert kernel["grid"] == [4, 1, 1] and kernel["constants"] == {"BLOCK": 256}
    assert [(p["kind"], p["index"], p["axes"]) for p in kernel["params"]][-2:] == [
        ("result", 0, []),
        ("coordinate", -1, ["x"]),
    ]
    binary = kernel["binaries"]["sm_90"]
    assert binary["sha256"] == manifest["files"][binary["file"]]
    assert (binary["regs"], binary["threads"], binary["ptx"]) == (20, 128, "ptx/sm_90/add.ptx")
    assert {"offset", "bytes", "dtype", "shape", "name"} <= set(manifest["buffers"][0])
    assert {"op", "kernel", "attrs", "inputs", "outputs", "stream", "waits", "records", "seconds", "start"} <= set(
        manifest["schedule"][0]
    )
    assert set(manifest["toolchain"]) == {"sm_90", "sm_80"}


def test_module_members_are_aligned(tmp_path):
    weights = {"a": np.arange(12, dtype=np.float32).reshape(4, 3)}
    write(tmp_path / "m.mgx", weights=weights, **code())
    raw = (tmp_path / "m.mgx").read_bytes()
    members = container.Container(tmp_path / "m.mgx")
    for name in members:
        start = raw.index(bytes(members[name])) if name.endswith(".safetensors") else 0
        assert start % PAGE == 0
    with zipfile.ZipFile(tmp_path / "m.mgx") as file:
        for member in file.infolist():
            size = int.from_bytes(raw[member.header_offset + 28 : member.header_offset + 30], "little")
            assert (member.header_offset + 30 + len(member.filename) + size) % LINE == 0


def test_equal_programs_give_byte_identical_modules(tmp_path):
    write(tmp_path / "a.mgx", **code())
    write(tmp_path / "other name.mgx", **code())
    assert (tmp_path / "a.mgx").read_bytes() == (tmp_path / "other name.mgx").read_bytes()


def test_source_directory_does_not_change_module_bytes(tmp_path):
    for name in ("here", "there"):
        program = mixed()
        for body in program.kernels.values():
            for node in body.nodes:
                node.loc = Location(f"/{name}/program.py", 3)
        write(tmp_path / name, program)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


def test_failed_write_keeps_the_old_module_file(tmp_path, monkeypatch):
    path = tmp_path / "m.mgx"
    write(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsageError, match=r"MG0003.*No space left"):
        write(path, layers())
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.mgx"]


def test_missing_output_directory_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="MG0003"):
        write(tmp_path / "none" / "m.mgx")


def test_plan_with_a_race_is_not_written(tmp_path):
    module = layers(2)
    plan = schedule(module, costs=costs())
    broken = type(plan)(**{**plan.__dict__, "items": tuple(type(i)(**{**i.__dict__, "waits": ()}) for i in plan.items)})
    with pytest.raises(ScheduleError):
        write_module(tmp_path / "m.mgx", module, broken)
    assert not os.listdir(tmp_path)


def test_mismatched_weights_are_reported_together(tmp_path):
    with pytest.raises(ArgumentError) as caught:
        write(tmp_path / "m.mgx", weights={"a": np.zeros((3, 4), np.float32), "b": np.zeros(2)})
    assert [d.message for d in caught.value.diagnostics] == [
        "weight for an unknown input 'b'",
        "weight 'a' has type float32[3, 4], but the program takes f32[4,3]",
    ]


def test_tensors_of_every_dtype_round_trip():
    rng = np.random.default_rng(3)
    arrays = {
        f"t{n}": rng.integers(0, 2, shape).astype(dtype)
        for n, (shape, dtype) in enumerate(
            [
                ((3, 5), "float32"),
                ((), "int8"),
                ((0, 4), "float64"),
                ((7,), "bool"),
                ((1, 1), "float16"),
                ((3,), "uint16"),
            ]
        )
    }
    arrays["bf"] = rng.standard_normal((5,)).astype(np.dtype("bfloat16"))
    decoded = tensors.decode(memoryview(tensors.encode(arrays)))
    assert sorted(decoded) == sorted(arrays)
    for name, array in arrays.items():
        assert decoded[name].dtype == array.dtype and decoded[name].shape == array.shape
        assert decoded[name].tobytes() == array.tobytes()
        assert not decoded[name].flags.writeable


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 8, b"\xff" * 7 + b"\x7f{}", b"\x02" + bytes(7) + b"[]", b"\x0a" + bytes(7) + b'{"a":true}',
     b"\x3d" + bytes(7) + b'{"a":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]} }    '],
)  # fmt: skip
def test_malformed_tensors_are_rejected(content):
    with pytest.raises(ValueError):
        tensors.decode(memoryview(content))


def test_members_beyond_four_gigabytes_use_zip64():
    small, big = Entry("a.safetensors", 5 << 30, 1), Entry("b", 3, 2)
    plan = layout([small, big])
    assert plan.headers[1][0] > 5 << 30
    position, directory = plan.directory
    entries = list(container._read_entries(memoryview(directory), 2))
    assert entries == [small, big]
    end = memoryview(bytes(100) + directory)
    assert container._read_end(end)[2] == position
