"""Tests of tuning a module file: the file stays valid after any failure, and measurements are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import meshgen as mg
from meshgen.codegen.tuning.module_tuning import on_emulated, tune_file
from meshgen.codegen.tuning.table import read_table
from meshgen.codegen.tuning.tuner import Measured
from meshgen.errors import RuntimeFailure, UsageError
from meshgen.runtime.cuda.device import Launch
from meshgen.runtime.module_file.container import Container
from meshgen.runtime.signatures import require_signature, sign
from tests.codegen.tuning.measuring import bench, by_programs, compiled


@pytest.fixture
def module(tmp_path: Path) -> Path:
    compiled(tmp_path / "m.mgx")
    return tmp_path / "m.mgx"


def ignore(result: Measured) -> None:
    del result


def grids(path: Path) -> dict[str, int]:
    return {name: kernel.grid[0] for name, kernel in mg.load(path).manifest.kernels.items()}


def test_tuning_writes_module_and_table(module: Path, tmp_path: Path) -> None:
    before, reported = grids(module), list[Measured]()
    table, (tuning_bench, _) = tmp_path / "t.json", bench()
    results = tune_file(Container(module), tuning_bench, reported.append, output=module, table=table)
    assert results == reported and len(read_table(table).rows) == 2
    assert all(grids(module)[name] < before[name] for name in before)
    other_table = tmp_path / "kept.json"
    other_table.write_text(table.read_text().replace("Emulated H100", "GPU 2"))
    second_bench, _ = bench()
    tune_file(Container(module), second_bench, ignore, output=None, table=other_table)
    assert {row.device for row in read_table(other_table).rows} == {"GPU 2", "Emulated H100"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeFailure(), MemoryError()])
def test_interrupted_tuning_writes_completed_measurements(error: BaseException, module: Path, tmp_path: Path) -> None:
    before = grids(module)

    def times(launch: Launch) -> float:
        if len(timer.launches) > 3 * 4:  # the second kernel is being timed
            raise error
        return by_programs(launch)

    tuning_bench, timer = bench(times)
    with pytest.raises(type(error)):
        tune_file(Container(module), tuning_bench, ignore, output=module, table=tmp_path / "t.json")
    assert len(read_table(tmp_path / "t.json").rows) == 1
    assert grids(module)["dot"] == before["dot"] and grids(module)["dot_tanh"] < before["dot_tanh"]
    assert set(mg.load(module).record()["tuning"]) == {"dot_tanh"}


def test_failed_write_keeps_the_tuned_module(module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = module.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    tuning_bench, _ = bench()
    with monkeypatch.context() as patched, pytest.raises(UsageError, match=r"MG0003: .*No space"):
        patched.setattr("os.fsync", full)
        tune_file(Container(module), tuning_bench, ignore, output=module)
    assert module.read_bytes() == content and [*tmp_path.iterdir()] == [module]


def test_bad_tuning_paths_are_rejected_before_measuring(module: Path, tmp_path: Path) -> None:
    tuning_bench, timer = bench()
    (tmp_path / "bad.json").write_text("[]")
    for output, table, code in (
        (tmp_path / "nowhere" / "n.mgx", None, "MG0003"),
        (module, tmp_path / "nowhere" / "t.json", "MG0003"),
        (module, tmp_path / "bad.json", "MG0007"),
    ):
        with pytest.raises(UsageError, match=code):
            tune_file(Container(module), tuning_bench, ignore, output=output, table=table)
    assert not timer.launches


def test_tuning_a_signed_module_requires_its_key(module: Path, tmp_path: Path) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    private = ed25519.Ed25519PrivateKey.generate()
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    sign(module, module, key)
    content, (tuning_bench, timer) = module.read_bytes(), bench()
    with pytest.raises(UsageError, match=r"MG0001: .* is signed, and tuning would invalidate its signature"):
        tune_file(Container(module), tuning_bench, ignore, output=module)
    with pytest.raises(UsageError, match="MG0002"):
        tune_file(Container(module), tuning_bench, ignore, output=module, key=public)
    assert not timer.launches and module.read_bytes() == content
    tune_file(Container(module), tuning_bench, ignore, output=module, key=key)
    require_signature(Container(module), public)
    assert mg.load(module).record()["tuning"]


def test_tuning_on_emulated_gpu_keeps_shipped_kernels(module: Path) -> None:
    results = tune_file(Container(module), on_emulated(Container(module), 300, 3), ignore, output=None)
    for result in results:
        assert result.others == 2 and not result.warnings and result.change and result.change.form is None
        assert result.row and 1e-6 < result.row.seconds == result.row.before < 1e-4
