"""Tuning a file: it is whole whatever happens, and what was measured is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import meshgen as mg
from meshgen.codegen.tuning.files import on_emulated, tune_file
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


def ignore(found: Measured) -> None:
    del found


def grids(path: Path) -> dict[str, int]:
    return {name: kernel.grid[0] for name, kernel in mg.load(path).manifest.kernels.items()}


def test_module_and_table_are_written(module: Path, tmp_path: Path) -> None:
    before, told = grids(module), list[Measured]()
    table, (own, _) = tmp_path / "t.json", bench()
    found = tune_file(Container(module), own, told.append, output=module, table=table)
    assert found == told and len(read_table(table).rows) == 2
    assert all(grids(module)[name] < before[name] for name in before)
    kept = tmp_path / "kept.json"
    kept.write_text(table.read_text().replace("Emulated H100", "GPU 2"))
    again, _ = bench()
    tune_file(Container(module), again, ignore, output=None, table=kept)
    assert {row.device for row in read_table(kept).rows} == {"GPU 2", "Emulated H100"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeFailure(), MemoryError()])
def test_what_was_measured_before_an_interrupt_or_a_fault_is_written(
    error: BaseException, module: Path, tmp_path: Path
) -> None:
    before = grids(module)

    def times(launch: Launch) -> float:
        if len(timer.launches) > 3 * 4:  # in the second kernel
            raise error
        return by_programs(launch)

    own, timer = bench(times)
    with pytest.raises(type(error)):
        tune_file(Container(module), own, ignore, output=module, table=tmp_path / "t.json")
    assert len(read_table(tmp_path / "t.json").rows) == 1
    assert grids(module)["dot"] == before["dot"] and grids(module)["dot_tanh"] < before["dot_tanh"]
    assert set(mg.load(module).record()["tuning"]) == {"dot_tanh"}


def test_a_write_that_fails_leaves_the_module(module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = module.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    own, _ = bench()
    with monkeypatch.context() as patched, pytest.raises(UsageError, match=r"MG0003: .*No space"):
        patched.setattr("os.fsync", full)
        tune_file(Container(module), own, ignore, output=module)
    assert module.read_bytes() == content and [*tmp_path.iterdir()] == [module]


def test_bad_places_and_tables_are_refused_before_anything_is_measured(module: Path, tmp_path: Path) -> None:
    own, timer = bench()
    (tmp_path / "bad.json").write_text("[]")
    for output, table, code in (
        (tmp_path / "nowhere" / "n.mgx", None, "MG0003"),
        (module, tmp_path / "nowhere" / "t.json", "MG0003"),
        (module, tmp_path / "bad.json", "MG0007"),
    ):
        with pytest.raises(UsageError, match=code):
            tune_file(Container(module), own, ignore, output=output, table=table)
    assert not timer.launches


def test_a_signed_module_is_refused_or_signed_again(module: Path, tmp_path: Path) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    private = ed25519.Ed25519PrivateKey.generate()
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    sign(module, module, key)
    content, (own, timer) = module.read_bytes(), bench()
    with pytest.raises(UsageError, match=r"MG0001: .* is signed, and tuning would invalidate its signature"):
        tune_file(Container(module), own, ignore, output=module)
    with pytest.raises(UsageError, match="MG0002"):
        tune_file(Container(module), own, ignore, output=module, key=public)
    assert not timer.launches and module.read_bytes() == content
    tune_file(Container(module), own, ignore, output=module, key=key)
    require_signature(Container(module), public)
    assert mg.load(module).record()["tuning"]


def test_on_an_emulated_gpu_nothing_is_faster_than_what_was_shipped(module: Path) -> None:
    found = tune_file(Container(module), on_emulated(Container(module), 300, 3), ignore, output=None)
    for each in found:
        assert each.others == 2 and not each.warnings and each.change and each.change.form is None
        assert each.row and 1e-6 < each.row.seconds == each.row.before < 1e-4
