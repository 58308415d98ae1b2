"""Arrays in files: what `run` reads, writes and compares with."""

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
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("arrays")
    (place / "p.mlir").write_text(PROGRAM)
    assert main(["compile", str(place / "p.mlir"), "-o", str(place / "p.mgx"), "--target", "cpu"]) == 0
    np.savez(place / "two.npz", a=A, b=-A)
    np.savez(place / "none.npz")
    np.savez_compressed(place / "packed.npz", a=A)
    return place


def ran(place: Path, *words: str) -> int:
    return main(["run", str(place / "p.mgx"), *words])


def test_results_are_written_where_it_is_said_under_any_name(place: Path) -> None:
    for name in ("y.bin", "z.npz"):
        assert ran(place, "--input", f"a=@{place / 'two.npz'}", "--output", str(place / name)) == 0
    assert (place / "y.bin").read_bytes() == (place / "z.npz").read_bytes()
    assert not (place / "y.bin.npz").exists()
    found = np.load(place / "z.npz")
    assert sorted(found.files) == ["file", "log"]
    assert found["file"].shape == (6,)


def test_of_several_arrays_the_one_of_the_name_is_taken(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "zeros.npz").write_bytes(b"")
    np.savez(place / "zeros.npz", b=A, arg0=np.zeros(6, np.float32), a=np.zeros(6, np.float32))
    two = ["--input", f"a=@{place / 'two.npz'}", "--input", f"arg0=@{place / 'zeros.npz'}"]
    assert ran(place, *two, "--output", str(place / "sum.npz")) == 0
    assert np.array_equal(np.load(place / "sum.npz")["file"], A)
    assert ran(place, "--input", f"arg0=@{place / 'two.npz'}") == 2
    assert "has no array 'arg0'" in capsys.readouterr().err


@pytest.mark.parametrize("fault", ["junk", "cut", "changed", "text", "empty", "unpackable", "huge"])
def test_files_that_hold_no_arrays_are_refused(fault: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = (place / "two.npz").read_bytes(), place / f"{fault}.npz"
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
        bad.write_bytes((place / "none.npz").read_bytes())
    elif fault == "unpackable":
        packed = (place / "packed.npz").read_bytes()
        start = packed.index(b"a.npy") + 30
        bad.write_bytes(packed[:start] + b"\xff" * 8 + packed[start + 8 :])
    else:
        np.save(place / "a.npy", A)
        bad.write_bytes((place / "a.npy").read_bytes().replace(b"(6,), }          ", b"(9" + b"9" * 12 + b",), }"))
    assert ran(place, "--input", f"a=@{bad}") == 2
    assert "MG0002" in capsys.readouterr().err


def test_records_are_no_numbers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(place / "records.npy", np.zeros(6, [("x", np.float32)]))
    assert ran(place, "--input", f"a=@{place / 'records.npy'}") == 1
    assert "MG0601" in capsys.readouterr().err


def test_a_document_has_no_numbers_that_json_lacks(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(place / "below.npy", -np.ones(6, np.float32))
    assert ran(place, "--input", f"arg0=@{place / 'below.npy'}", "--json") == 0

    def refuse(text: str) -> None:
        raise AssertionError(text)

    document = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert [row["mean"] is None for row in document["outputs"]] == [False, True]
    assert json.loads(document_text({"a": [np.float32("inf"), (1.5, {"b": float("nan")})]})) == {
        "a": [None, [1.5, {"b": None}]]
    }


def test_seeds_are_whole_numbers_from_0_on(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(place, "--seed=-1") == 2
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
def test_expected_values_are_compared_in_all_their_digits(got: np.ndarray, want: np.ndarray, ok: bool) -> None:
    (row,) = compare(["y"], [got], Expected({"y": want}), None)
    assert row["ok"] == ok


@pytest.mark.parametrize("want", [A.astype(ml_dtypes.bfloat16).view("V2"), A.astype(str), np.zeros(6, [("x", "f4")])])
def test_expected_values_that_are_no_numbers_are_refused(want: np.ndarray) -> None:
    with pytest.raises(ArgumentError, match="MG0601"):
        compare(["y"], [A], Expected({"y": want}), None)


def test_weights_come_from_safetensors_files_beside_the_module(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("a", A), ("arg0", A + 1), ("b", A)):
        (place / f"{name}.safetensors").write_bytes(encode({name: value}))
    both = ["--weights", str(place / "a.safetensors"), "--weights", str(place / "arg0.safetensors")]
    assert ran(place, *both, "--output", str(place / "w.npz")) == 0
    np.testing.assert_array_equal(np.load(place / "w.npz")["file"], 2 * A + 1)
    np.save(place / "other.npy", -A)
    assert ran(place, *both, "--input", f"a=@{place / 'other.npy'}", "--output", str(place / "w.npz")) == 0
    np.testing.assert_array_equal(np.load(place / "w.npz")["file"], np.ones(6))
    capsys.readouterr()
    assert ran(place, "--weights", str(place / "b.safetensors")) == 1
    assert "tensors that the program does not take: 'b'" in capsys.readouterr().err
    assert ran(place, "--weights", str(place / "two.npz")) == 2
    assert "cannot be read as safetensors" in capsys.readouterr().err
