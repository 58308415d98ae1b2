"""Array files for `run`: its inputs, its results, and the expected values that it compares with."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from meshgen.cli import main
from meshgen.commands.comparison import Expected, compare
from meshgen.commands.output import document_text
from meshgen.errors import ArgumentError
from meshgen.runtime.module_file.tensors import encode

PROGRAM = """
shard.grid @g(shape = 2) {axis_names = ["x"]}
func.func @main(%a: tensor<6xf32>, %arg0: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %file = stablehlo.add %a, %arg0 : tensor<6xf32>
  %log = stablehlo.log %arg0 : tensor<6xf32>
  return %file, %log : tensor<6xf32>, tensor<6xf32>
}
"""
A = np.arange(6, dtype=np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arrays")
    (folder / "p.mlir").write_text(PROGRAM)
    assert main(["compile", str(folder / "p.mlir"), "-o", str(folder / "p.mgx"), "--target", "cpu"]) == 0
    np.savez(folder / "two.npz", a=A, b=-A)
    np.savez(folder / "none.npz")
    np.savez_compressed(folder / "packed.npz", a=A)
    return folder


def ran(folder: Path, *words: str) -> int:
    return main(["run", str(folder / "p.mgx"), *words])


def test_results_are_written_to_output_path_with_any_suffix(folder: Path) -> None:
    for name in ("y.bin", "z.npz"):
        assert ran(folder, "--input", f"a=@{folder / 'two.npz'}", "--output", str(folder / name)) == 0
    assert (folder / "y.bin").read_bytes() == (folder / "z.npz").read_bytes()
    assert not (folder / "y.bin.npz").exists()
    results = np.load(folder / "z.npz")
    assert sorted(results.files) == ["file", "log"]
    assert results["file"].shape == (6,)


def test_input_file_provides_the_array_of_the_inputs_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "zeros.npz").write_bytes(b"")
    np.savez(folder / "zeros.npz", b=A, arg0=np.zeros(6, np.float32), a=np.zeros(6, np.float32))
    two = ["--input", f"a=@{folder / 'two.npz'}", "--input", f"arg0=@{folder / 'zeros.npz'}"]
    assert ran(folder, *two, "--output", str(folder / "sum.npz")) == 0
    assert np.array_equal(np.load(folder / "sum.npz")["file"], A)
    assert ran(folder, "--input", f"arg0=@{folder / 'two.npz'}") == 2
    assert "has no array 'arg0'" in capsys.readouterr().err


@pytest.mark.parametrize("fault", ["junk", "cut", "changed", "text", "empty", "unpackable", "huge"])
def test_malformed_array_file_is_refused(fault: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = (folder / "two.npz").read_bytes(), folder / f"{fault}.npz"
    if fault == "junk":
        bad.write_bytes(b"PK\3\4" + b"junk" * 50)
    elif fault == "cut":
        bad.write_bytes(good[: len(good) // 2])
    elif fault == "changed":
        bad.write_bytes(good[:150] + bytes([good[150] ^ 255]) + good[151:])
    elif fault == "text":
        with zipfile.ZipFile(bad, "w") as archive:
            archive.writestr("a.txt", "hello")
    elif fault == "empty":
        bad.write_bytes((folder / "none.npz").read_bytes())
    elif fault == "unpackable":
        packed = (folder / "packed.npz").read_bytes()
        start = packed.index(b"a.npy") + 30
        bad.write_bytes(packed[:start] + b"\xff" * 8 + packed[start + 8 :])
    else:
        np.save(folder / "a.npy", A)
        bad.write_bytes((folder / "a.npy").read_bytes().replace(b"(6,), }          ", b"(9" + b"9" * 12 + b",), }"))
    assert ran(folder, "--input", f"a=@{bad}") == 2
    assert "MG0002" in capsys.readouterr().err


def test_structured_array_is_refused_as_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(folder / "records.npy", np.zeros(6, [("x", np.float32)]))
    assert ran(folder, "--input", f"a=@{folder / 'records.npy'}") == 1
    assert "MG0601" in capsys.readouterr().err


def test_json_document_has_null_for_non_finite_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(folder / "below.npy", -np.ones(6, np.float32))
    assert ran(folder, "--input", f"arg0=@{folder / 'below.npy'}", "--json") == 0

    def refuse(text: str) -> None:
        raise AssertionError(text)

    document = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert [row["mean"] is None for row in document["outputs"]] == [False, True]
    assert json.loads(document_text({"a": [np.float32("inf"), (1.5, {"b": float("nan")})]})) == {
        "a": [None, [1.5, {"b": None}]]
    }


def test_negative_seed_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(folder, "--seed=-1") == 2
    assert "MG0001" in capsys.readouterr().err


@pytest.mark.parametrize(
    "got, want, ok",
    [
        (np.ones(3, np.complex64), np.ones(3, np.complex64) + 1j, False),
        (np.ones(3, np.complex64) + 1j, np.ones(3, np.complex64) + 1j, True),
        (np.ones(3, np.float32), np.ones(3, np.float32) + 1j, False),
        (np.array([2**53], np.int64), np.array([2**53 + 1], np.int64), False),
        (np.array([2**53], np.int64), np.array([2**53], np.int64), True),
        (A.astype(ml_dtypes.bfloat16), A.astype(ml_dtypes.bfloat16).view("V2"), True),
        (A, A.astype(">f8"), True),
    ],
)
def test_expected_values_are_compared_without_loss_of_digits(got: np.ndarray, want: np.ndarray, ok: bool) -> None:
    (row,) = compare(["y"], [got], Expected({"y": want}), None)
    assert row["ok"] == ok


@pytest.mark.parametrize("want", [A.astype(ml_dtypes.bfloat16).view("V2"), A.astype(str), np.zeros(6, [("x", "f4")])])
def test_non_numeric_expected_values_are_refused(want: np.ndarray) -> None:
    with pytest.raises(ArgumentError, match="MG0601"):
        compare(["y"], [A], Expected({"y": want}), None)


def test_run_reads_weights_from_safetensors_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("a", A), ("arg0", A + 1), ("b", A)):
        (folder / f"{name}.safetensors").write_bytes(encode({name: value}))
    both = ["--weights", str(folder / "a.safetensors"), "--weights", str(folder / "arg0.safetensors")]
    assert ran(folder, *both, "--output", str(folder / "w.npz")) == 0
    np.testing.assert_array_equal(np.load(folder / "w.npz")["file"], 2 * A + 1)
    np.save(folder / "other.npy", -A)
    assert ran(folder, *both, "--input", f"a=@{folder / 'other.npy'}", "--output", str(folder / "w.npz")) == 0
    np.testing.assert_array_equal(np.load(folder / "w.npz")["file"], np.ones(6))
    capsys.readouterr()
    assert ran(folder, "--weights", str(folder / "b.safetensors")) == 1
    assert "tensors that the program does not take: 'b'" in capsys.readouterr().err
    assert ran(folder, "--weights", str(folder / "two.npz")) == 2
    assert "cannot be read as safetensors" in capsys.readouterr().err
