"""Tests of builds with the real compilers. They are few and small, and need no GPU."""

from __future__ import annotations

import dataclasses
import re
import stat
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from meshgen.codegen.building import workers
from meshgen.codegen.building.build import Request, build_kernels, request_of
from meshgen.codegen.building.built_kernel import built_kernel
from meshgen.codegen.building.cache import Cache
from meshgen.codegen.building.cubin import read_resources
from meshgen.errors import CodegenError, MissingError, UsageError
from meshgen.ir.graph import TensorType
from meshgen.kernels.architectures import ARCHITECTURES
from tests.codegen.programs import body, f32

ADD = """\
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < 1000) + tl.load(y + i, mask=i < 1000), mask=i < 1000)
"""
MATMUL = """\
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, 512, BK):
        rows = tl.load(a + m[:, None] * 512 + (start + k)[None, :])
        acc += tl.dot(rows, tl.load(b + (start + k)[:, None] * 512 + n[None, :]))
    tl.store(c + m[:, None] * 512 + n[None, :], acc.to(tl.bfloat16))
"""
ADD_REQUEST = Request("add", ADD, "add", (("x", "*fp32"), ("y", "*fp32"), ("out", "*fp32")), (("BLOCK", 256),))


def matmul_request(bm: int, bn: int, bk: int, **options) -> Request:
    signature = (("a", "*bf16"), ("b", "*bf16"), ("c", "*bf16"))
    return Request("matmul", MATMUL, "matmul", signature, (("BK", bk), ("BM", bm), ("BN", bn)), **options)


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_kernels_are_built_for_each_architecture_in_order(shared_cache):
    progress = []
    requests = [matmul_request(64, 64, 32), ADD_REQUEST]
    built = build_kernels(requests, ["sm_90", "sm_80"], shared_cache, progress=lambda *p: progress.append(p))
    assert list(built) == [("matmul", "sm_90"), ("matmul", "sm_80"), ("add", "sm_90"), ("add", "sm_80")]
    assert [p[:2] for p in progress] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    for kernel in built.values():
        assert kernel.cubin.startswith(b"\x7fELF")
        assert kernel.threads == 128
        assert 0 < kernel.regs < 256
        assert (kernel.spill_bytes, kernel.stack_bytes) == (0, 0)
        assert not {"LDL", "STL"} & set(kernel.instructions)
    assert built["matmul", "sm_90"].instructions["HGMMA"] > 0
    assert built["matmul", "sm_80"].instructions["HMMA"] > 0
    assert built["matmul", "sm_80"].instructions["LDGSTS"] > 0
    assert built["matmul", "sm_80"].shared > 0


def test_second_build_is_read_from_the_cache(shared_cache, monkeypatch):
    first = build_kernels([ADD_REQUEST], ["sm_90"], shared_cache)["add", "sm_90"]
    monkeypatch.setattr(
        "meshgen.codegen.building.build.compile_all", lambda requests, *_: pytest.fail("built") if requests else None
    )
    second = build_kernels([ADD_REQUEST], ["sm_90"], shared_cache)["add", "sm_90"]
    assert second.cached
    assert dataclasses.replace(second, cached=first.cached) == first


def test_rebuild_in_another_cache_is_byte_identical(shared_cache, tmp_path):
    workers.close_all()  # so that the rebuild starts another compiler process, with another cache directory
    rebuilt = build_kernels([ADD_REQUEST], ["sm_90"], tmp_path / "elsewhere")["add", "sm_90"]
    assert not rebuilt.cached
    assert rebuilt.cubin == build_kernels([ADD_REQUEST], ["sm_90"], shared_cache)["add", "sm_90"].cubin
    assert str(tmp_path).encode() not in rebuilt.cubin


@pytest.mark.parametrize("damage", [b"", b"nonsense", None], ids=["empty", "other", "flipped"])
def test_corrupt_cache_entry_is_rebuilt(shared_cache, damage):
    good = build_kernels([ADD_REQUEST], ["sm_90"], shared_cache)["add", "sm_90"]
    for entry in (shared_cache / "kernels").rglob("*.bin"):
        content = entry.read_bytes()
        entry.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
    rebuilt = build_kernels([ADD_REQUEST], ["sm_90"], shared_cache)["add", "sm_90"]
    assert not rebuilt.cached
    assert rebuilt.cubin == good.cubin


def test_cache_entries_with_swapped_names_are_rebuilt(tmp_path):
    kernels = [ADD_REQUEST, ADD_REQUEST._replace(name="other", text=ADD.replace(") + tl", ") - tl"))]
    good = build_kernels(kernels, ["sm_90"], tmp_path)
    first, second = sorted(tmp_path.rglob("*.bin"))
    first.rename(tmp_path / "held")
    second.rename(first)
    (tmp_path / "held").rename(second)
    rebuilt = build_kernels(kernels, ["sm_90"], tmp_path)
    assert {name: kernel.cubin for name, kernel in rebuilt.items()} == {name: good[name].cubin for name in good}
    assert not any(kernel.cached for kernel in rebuilt.values())
    assert all(kernel.cached for kernel in build_kernels(kernels, ["sm_90"], tmp_path).values())


def test_cache_entry_with_invalid_description_is_rebuilt(shared_cache, tmp_path):
    good = build_kernels([ADD_REQUEST], ["sm_90"], shared_cache)["add", "sm_90"]
    build_kernels([ADD_REQUEST], ["sm_90"], tmp_path)
    cache, (entry,) = Cache(tmp_path), tmp_path.rglob("*.bin")
    cubin, description = cache.get(entry.stem)
    bad_descriptions = [{}, description | {"more": 1}, description | {"regs": "20"}, description | {"metadata": []},
              description | {"metadata": {"name": "add"}}, description | {"arch": "sm_80"}]  # fmt: skip
    bad_descriptions.append(description | {"metadata": description["metadata"] | {"name": "sub"}})
    for bad_description in bad_descriptions:
        assert built_kernel(cubin, bad_description, "add", "sm_90") is None
    assert built_kernel(cubin[:100], description, "add", "sm_90") is None
    assert built_kernel(cubin, description, "add", "sm_90") == dataclasses.replace(
        good, cached=True, seconds=description["seconds"]
    )
    cache.put(entry.stem, cubin, bad_descriptions[1])
    rebuilt = build_kernels([ADD_REQUEST], ["sm_90"], tmp_path)["add", "sm_90"]
    assert not rebuilt.cached and rebuilt.cubin == good.cubin
    assert build_kernels([ADD_REQUEST], ["sm_90"], tmp_path)["add", "sm_90"].cached


def test_build_without_cache_writes_only_private_files(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    workers.close_all()
    warnings = []
    assert build_kernels([ADD_REQUEST], ["sm_90"], tmp_path / "file", warn=warnings.append)["add", "sm_90"].regs
    remaining = list((tmp_path / "tmp").iterdir())
    # The only remaining entry is the private directory of the compiler process, which still runs.
    assert [stat.S_IMODE(path.stat().st_mode) for path in remaining] == [0o700], remaining
    assert [warning.code for warning in warnings] == ["MG0004"] and "not a directory" in warnings[0].message
    workers.close_all()
    assert not list((tmp_path / "tmp").iterdir())


def test_compiler_environment_variables_do_not_change_builds(shared_cache, tmp_path, monkeypatch):
    good = build_kernels([ADD_REQUEST], ["sm_90"], shared_cache)["add", "sm_90"]
    workers.close_all()
    for name in ("DISABLE_PTXAS_OPT", "TRITON_DISABLE_LINE_INFO", "DISABLE_LLVM_OPT"):
        monkeypatch.setenv(name, "1" if name.startswith("DISABLE") else "0")
    assert build_kernels([ADD_REQUEST], ["sm_90"], tmp_path)["add", "sm_90"].cubin == good.cubin
    workers.close_all()


def test_ptxas_that_cannot_run_is_reported_as_missing(tmp_path, monkeypatch):
    for name in ("nowhere", str(tmp_path), "/bin/false"):
        monkeypatch.setenv("TRITON_PTXAS_PATH", name)
        with pytest.raises(MissingError, match=r"MG0602: '.*' cannot be run(?s:.*)unset TRITON_PTXAS_PATH"):
            build_kernels([ADD_REQUEST], ["sm_90"], tmp_path)


def test_equal_kernels_are_built_once(tmp_path):
    counts = []
    twin = ADD_REQUEST._replace(name="twin")
    built = build_kernels([ADD_REQUEST, twin], ["sm_90"], tmp_path, progress=lambda *p: counts.append(p[:2]))
    assert counts == [(1, 1)]
    assert built["add", "sm_90"] is built["twin", "sm_90"]


def test_compile_errors_of_all_kernels_are_reported_together(tmp_path):
    broken = [
        Request("lost", ADD.replace("tl.load(y", "tl.lod(y"), "add", ADD_REQUEST.signature, (("BLOCK", 256),)),
        Request("odd", ADD, "add", ADD_REQUEST.signature, (("BLOCK", 255),)),
    ]
    with pytest.raises(CodegenError) as caught:
        build_kernels([broken[0], ADD_REQUEST, broken[1]], ["sm_90"], tmp_path)
    texts = [str(d) for d in caught.value.diagnostics]
    assert [d.code for d in caught.value.diagnostics] == ["MG0302", "MG0302"]
    assert "'lost' does not compile for sm_90" in texts[0] and "lod" in texts[0]
    assert "'odd'" in texts[1] and "power of 2" in texts[1]
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.loc and "def add" in Path(diagnostic.loc.file).read_text()
        assert len(diagnostic.message) < 2000


def test_unknown_architectures_are_rejected(tmp_path):
    with pytest.raises(UsageError, match=r"(?s)unknown GPU architecture 'sm_90a'.*did you mean 'sm_90'.*'gfx942'"):
        build_kernels([ADD_REQUEST], ["sm_90a", "sm_90", "gfx942"], tmp_path)


def test_architecture_unknown_to_ptxas_is_unsupported(tmp_path, monkeypatch):
    monkeypatch.setitem(ARCHITECTURES, "sm_110", dataclasses.replace(ARCHITECTURES["sm_100"], name="sm_110"))
    with pytest.raises(CodegenError) as caught:
        build_kernels([ADD_REQUEST, ADD_REQUEST._replace(name="twin", num_warps=8)], ["sm_110"], tmp_path)
    (fault,) = caught.value.diagnostics
    assert "target cuda:sm_110 is not supported by the installed Triton" in fault.message
    assert "sm_90" in fault.message and "fault of meshgen" not in fault.hint


def test_compiler_crash_fails_only_its_kernel(tmp_path):
    crash = Request("crash", "import os\n\nos.abort()\n\n\ndef crash():\n    pass\n", "crash", ())
    with pytest.raises(CodegenError, match=r"MG0302: kernel 'crash' .*exited with status -6"):
        build_kernels([crash], ["sm_90"], tmp_path)
    assert build_kernels([ADD_REQUEST], ["sm_90"], tmp_path)["add", "sm_90"].regs


def test_kernel_with_too_much_shared_memory_is_rejected(tmp_path):
    request = matmul_request(128, 128, 128, num_warps=8, num_stages=4)
    with pytest.raises(CodegenError, match=r"MG0303: kernel 'matmul' needs \d+ kB of shared memory.*sm_90 has 232 kB"):
        build_kernels([request], ["sm_90"], tmp_path)


def test_kernel_resources_agree_with_cuda_tools(shared_cache, tmp_path):
    triton = pytest.importorskip("triton")
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    spilling = matmul_request(128, 256, 32, num_warps=4)._replace(name="spilling")
    for (name, arch), kernel in build_kernels([spilling, ADD_REQUEST], ["sm_80", "sm_90"], shared_cache).items():
        path = tmp_path / f"{name}_{arch}.cubin"
        path.write_bytes(kernel.cubin)
        usage = _output([tools / "cuobjdump", "--dump-resource-usage", path])
        assert re.search(r"REG:(\d+) STACK:(\d+)", usage).groups() == (str(kernel.regs), str(kernel.stack_bytes))
        names = re.findall(
            r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)", _output([tools / "nvdisasm", "-c", path])
        )
        counts = Counter(names)
        for mnemonic, count in kernel.instructions.items():
            expected = sum(counts.values()) - counts["NOP"] if mnemonic == "total" else counts[mnemonic]
            assert count == expected, mnemonic
        assert bool(kernel.spill_bytes) == bool(counts["LDL"] + counts["STL"])


def _output(command: list) -> str:
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def test_invalid_cubin_is_rejected():
    for content in (b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 100):
        with pytest.raises(ValueError, match="not a cubin with kernel 'k'"):
            read_resources(content, "k")


@dataclasses.dataclass(frozen=True)
class FakeSource:
    text: str = ADD
    entry: str = "add"
    params: tuple = (("operand", 0), ("coordinate", ("x",)), ("result", 0))
    constants: dict = dataclasses.field(default_factory=lambda: {"BLOCK": 64})
    num_warps: int = 2
    num_stages: int = 1


def test_request_signature_follows_from_the_body():
    local = TensorType((4,), "bf16")
    request = request_of("k", FakeSource(), body("k", "tanh", [local], f32(4)))
    assert request.signature == (("x", "*bf16"), ("y", "i32"), ("out", "*fp32"))
    assert request.pointers == ("x", "out")
    assert (request.constants, request.num_warps) == ((("BLOCK", 64),), 2)
    with pytest.raises(CodegenError, match=r"MG0301.*operand 0 has element type i4"):
        request_of("k", FakeSource(), body("k", "tanh", [TensorType((4,), "i4")], f32(4)))
