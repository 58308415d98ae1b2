"""Tests that every program that compiles also loads, up to the largest one. Larger programs are rejected early."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from meshgen.cli import main
from meshgen.codegen.scheduling.memory import Lifetime, place
from meshgen.errors import CodegenError, ModuleError
from meshgen.ir.graph import TensorType
from meshgen.ir.limits import MAX_BYTES, MAX_LOCAL_RANK, MAX_NESTING, MAX_RANK, size_fault
from meshgen.runtime.module_file import limits
from meshgen.runtime.module_file.json_values import MAX_NAME


def identity(kind: str, name: str = "a") -> str:
    return f"func.func @main(%{name}: {kind}) -> {kind} {{\n  %0 = stablehlo.negate %{name} : {kind}\n  return %0 : {kind}\n}}\n"


def of_rank(rank: int) -> str:
    return identity(f"tensor<{'1x' * (rank - 1)}4xf32>")


def of_bytes(count: int, shape: str = "") -> Iterator[str]:
    for dtype, width in (("i8", 1), ("bf16", 2), ("f32", 4), ("complex<f64>", 16)):
        yield identity(f"tensor<{shape}{count // width}x{dtype}>")


AT, BEYOND = MAX_BYTES, 2 * MAX_BYTES
FITS = {
    "rank": [of_rank(MAX_RANK)],
    "bytes": [*of_bytes(AT), *of_bytes(AT - 16)],
    "bytes of nothing": [*of_bytes(AT, "0x")],
    "name": [identity("tensor<4xf32>", "a" * MAX_NAME)],
}
TOO_MUCH = {
    "rank": [of_rank(MAX_RANK + 1)],
    "bytes": [*of_bytes(BEYOND), *of_bytes(AT + 16)],
    "bytes of nothing": [*of_bytes(BEYOND, "0x")],
}
MESHES = ("x=3", "x=1048576")


def compiled(text: str, mesh: str, folder: Path, *words: str) -> tuple[int, str]:
    (folder / "m.mlir").write_text(text)
    module = str(folder / "m.mgx")
    return main(["compile", str(folder / "m.mlir"), "-o", module, "--mesh", mesh, "--target", "cpu", *words]), module


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("limit", FITS)
def test_largest_programs_compile_and_load(limit: str, mesh: str, tmp_path: Path) -> None:
    last = {"rank": MAX_RANK - 1, "bytes of nothing": 1}.get(limit, 0)
    for text in FITS[limit]:
        name = "a" * MAX_NAME if limit == "name" else "a"
        for words in ([], ["--spec", f"{name}={'_,' * last}x"]):
            code, module = compiled(text, mesh, tmp_path, *words)
            assert (code, main(["inspect", module])) == (0, 0)


@pytest.mark.parametrize("limit", TOO_MUCH)
def test_too_large_program_is_rejected_with_location(limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    for text in TOO_MUCH[limit]:
        assert compiled(text, "x=3", tmp_path)[0] == 1
        assert f"{tmp_path / 'm.mlir'}:1: error MG0108" in capsys.readouterr().err


@pytest.mark.parametrize("extra", [-16, 0])
def test_module_enlarged_by_padding_is_rejected_or_loads(extra: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """Tiles for three devices are padded, so gathering them gives more bytes than the tensor has."""
    code, module = compiled(identity(f"tensor<{AT + extra}xi8>"), "x=3", tmp_path, "--spec", "a=x", "--out-spec", "result=_")  # fmt: skip
    err = capsys.readouterr().err
    assert (code == 0 and main(["inspect", module]) == 0) or (code == 1 and ("MG0504" in err or "MG0303" in err))


@pytest.mark.parametrize("rank", [MAX_RANK - 1, MAX_RANK])
def test_tiles_of_highest_rank_load_and_run(rank: int, tmp_path: Path) -> None:
    """Gathers, all_to_alls and slices add dims to tiles temporarily."""
    kind = f"tensor<{'1x' * (rank - 2)}4x4xf32>"
    replicated_dims = ", ".join(["{}"] * (rank - 2))
    rows, columns = (f"<@m, [{replicated_dims}, {last_dims}]>" for last_dims in ('{"x"}, {}', '{}, {"x"}'))
    moves = "\n".join(
        f"%s{n} = stablehlo.negate %r{n} : {kind}\n%r{n + 1} = sdy.sharding_constraint %s{n} {columns if n % 2 else rows} : {kind}"
        for n in range(4)
    )
    text = f'sdy.mesh @m = <["x"=2]>\nfunc.func @main(%r0: {kind}) -> {kind} {{\n{moves}\nreturn %r4 : {kind}\n}}\n'
    (tmp_path / "m.mlir").write_text(text)
    assert main(["check", str(tmp_path / "m.mlir")]) == 0
    assert main(["compile", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.mgx"), "--target", "cpu"]) == 0
    assert main(["run", str(tmp_path / "m.mgx")]) == 0


def test_arena_up_to_size_limit_is_placed() -> None:
    tensors = [Lifetime(MAX_BYTES, (0, n, 0), (0, n + 1, 0), True) for n in range((1 << 62) // MAX_BYTES)]
    with pytest.raises(CodegenError, match="MG0303"):
        place(tensors)
    assert place(tensors[1:])[1] < 1 << 62


@pytest.mark.parametrize(
    "word", ["inputs", "outputs", "kernels", "launches", "buffers", "mesh axes", "operations in kernels"]
)
def test_count_limits_agree_for_writing_and_loading(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """The program compiles exactly at those limits at which its module loads."""
    text = identity("tensor<4xf32>")
    code, module = compiled(text, "x=2,y=1", tmp_path)
    assert code == 0
    loads, compiles = [], []
    for limit in range(5):
        monkeypatch.setitem(limits.LIMITS, word, limit)
        loads.append(main(["inspect", module]) == 0)
        compiles.append(compiled(text, "x=2,y=1", tmp_path)[0] == 0)
    assert loads == compiles and True in loads and False in loads


def test_program_limits_are_below_module_limits() -> None:
    # at most 20 of the axes have more than one device, since a mesh has at most 2^20 devices
    assert MAX_RANK + 20 <= MAX_LOCAL_RANK < 64 and MAX_NESTING <= 64
    assert size_fault(TensorType((1,) * MAX_LOCAL_RANK, "f32"), MAX_LOCAL_RANK) == ""
    assert "rank 61" in size_fault(TensorType((1,) * 61, "f32"), MAX_LOCAL_RANK)


def test_unreadable_manifest_is_not_written() -> None:
    def read(document: object) -> None:
        raise ValueError(f"{document} is too much")

    with pytest.raises(ModuleError, match=r"MG0504.*7 is too much"):
        limits.require_readable("m", b"7", read)
