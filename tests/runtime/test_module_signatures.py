"""Tests of signed modules: `verify_key` accepts only modules signed with that key."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.errors import MissingError, ModuleError, UsageError
from meshgen.runtime.module_file import container
from meshgen.runtime.module_file.members import SIGNATURE
from meshgen.runtime.signatures import require_signature, sign

X = np.arange(4, dtype=np.float32)


def module(path: Path) -> Path:
    mg.compile(lambda x: x + x, {"a": 2}, args=["f32[4]"], target="cpu").save(path)
    return path


def keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a new private key and its public key to files."""
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key, pem = ed25519.Ed25519PrivateKey.generate(), serialization.Encoding.PEM
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path]:
    """The path of a signed module, and the public key."""
    private, public = keys(tmp_path, "own")
    sign(module(tmp_path / "m.mgx"), tmp_path / "m.mgx", private)
    return tmp_path / "m.mgx", public


def members(path: Path) -> dict[str, bytes]:
    container_file = container.Container(path)
    return {name: bytes(container_file[name]) for name in container_file}


def test_signed_module_loads_and_runs(signed: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    path, public = signed
    np.testing.assert_array_equal(mg.load(path, verify_key=public)(X), 2 * X)
    np.testing.assert_array_equal(mg.load(path)(X), 2 * X)
    assert main(["verify", str(path), "--key", str(public)]) == 0
    assert main(["run", str(path), "--verify-key", str(public)]) == 0
    assert "signed by" in capsys.readouterr().out


def test_signature_leaves_other_bytes_unchanged(signed: tuple[Path, Path], tmp_path: Path) -> None:
    plain = module(tmp_path / "plain.mgx").read_bytes()
    rest = {name: content for name, content in members(signed[0]).items() if name != SIGNATURE}
    container.write(tmp_path / "rest.mgx", rest)
    assert (tmp_path / "rest.mgx").read_bytes() == plain


def test_second_signature_replaces_first(signed: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys(tmp_path, "other")
    sign(signed[0], tmp_path / "again.mgx", private)
    mg.load(tmp_path / "again.mgx", verify_key=public)
    with pytest.raises(ModuleError, match=r"MG0506: .* is signed by the key [0-9a-f]{64}, not by"):
        mg.load(tmp_path / "again.mgx", verify_key=signed[1])


def test_unsigned_module_is_rejected(
    signed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = module(tmp_path / "plain.mgx")
    for words in (["verify", str(plain), "--key"], ["run", str(plain), "--verify-key"]):
        assert main([*words, str(signed[1])]) == 1
        assert "MG0506" in capsys.readouterr().err


def test_signature_of_other_module_is_rejected(signed: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "other.mgx"
    mg.compile(lambda x: x * x, {"a": 2}, args=["f32[4]"], target="cpu").save(path)
    container.write(path, members(path) | {SIGNATURE: members(signed[0])[SIGNATURE]})
    mg.load(path)  # loading succeeds if no key is required
    with pytest.raises(ModuleError, match=r"MG0506: the signature of .* is wrong"):
        mg.load(path, verify_key=signed[1])


@pytest.mark.parametrize("content", [b"", b"ed25519 \n", b"ed25519 " + b"0" * 64 + b" " + b"0" * 127 + b"\n"])
def test_malformed_signature_is_rejected(content: bytes, signed: tuple[Path, Path]) -> None:
    path, public = signed
    container.write(path, members(path) | {SIGNATURE: content})
    with pytest.raises(ModuleError, match=r"MG0506: the signature of .* is malformed"):
        mg.load(path, verify_key=public)


def test_every_changed_member_invalidates_signature(signed: tuple[Path, Path]) -> None:
    path, public = signed
    good = members(path)
    for name, content in good.items():
        changed = bytes([content[0] ^ 1]) + content[1:] if content else b"x"
        container.write(path, good | {name: changed})
        with pytest.raises(ModuleError, match=r"MG050[26]"):
            mg.load(path, verify_key=public)


def test_invalid_key_files_are_rejected(signed: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys(tmp_path, "own")
    (tmp_path / "text").write_text("no key\n")
    for wrong in (tmp_path / "text", tmp_path / "missing", tmp_path, private):
        with pytest.raises(UsageError, match=r"MG0002: .* cannot be read as a public key"):
            mg.load(signed[0], verify_key=wrong)
    with pytest.raises(UsageError, match=r"MG0002: .* cannot be read as a private key"):
        sign(signed[0], signed[0], public)


def test_missing_cryptography_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, modules load, and only signature checks fail."""
    path = module(tmp_path / "m.mgx")
    hidden: Any = None
    for name in ("cryptography", "cryptography.exceptions", "cryptography.hazmat.primitives.serialization"):
        monkeypatch.setitem(sys.modules, name, hidden)
    mg.load(path)
    with pytest.raises(MissingError, match="MG0602: signatures need the package cryptography"):
        require_signature(container.Container(path), "key.pem")
