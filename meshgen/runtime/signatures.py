"""ed25519 signatures of modules, stored in a member of the file.

    meshgen sign OUT.mgx --key key.pem          meshgen run OUT.mgx --verify-key public.pem

The signed message is the SHA-256 of the manifest, which contains the SHA-256 of all other members, so the signature
covers the entire file. Removing the signature restores the bytes of the original file. Keys are PEM files, as written
by openssl:

    openssl genpkey -algorithm ed25519 -out key.pem
    openssl pkey -in key.pem -pubout -out public.pem

Source: RFC 8032; the package `cryptography` implements it.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from pathlib import Path
from typing import Any

from meshgen.budget import read_file
from meshgen.errors import Diagnostic, MissingError, ModuleError, UsageError, system_reason
from meshgen.packages import install
from meshgen.runtime.module_file import container
from meshgen.runtime.module_file.members import SIGNATURE, Members
from meshgen.runtime.validation.load_checks import checked_manifest

_MAX_KEY_BYTES = 1 << 16  # largest size of a key file in bytes (chosen: ed25519 keys take about 120)
# prefix of the signed message, which separates it from messages that other programs sign with the same key
_CONTEXT = b"meshgen module 1\n"
_FORM = re.compile(rb"ed25519 ([0-9a-f]{64}) ([0-9a-f]{128})\n")  # sizes in bytes of public key and signature


def sign(source: str | Path, target: str | Path, key: str | Path) -> str:
    """Write a signed copy of a module, and return the public key in hexadecimal. An existing signature is replaced.

    Args:
        key: a PEM file with an unencrypted ed25519 private key.
    Raises:
        UsageError: MG0002, the module or the key cannot be read. MG0003, the file cannot be written.
        ModuleError: MG0501 to MG0503, the file is not a module, or is damaged.
        MissingError: MG0602, the package `cryptography` is not installed.
    """
    module = container.Container(container.path_of(source))
    checked_manifest(module, module.path)
    members, public = signed(module, key)
    container.write(container.path_of(target), members)
    return public


def signed(members: Members, key: str | Path) -> tuple[dict[str, bytes], str]:
    """Return the members of a module with a new signature, and the public key in hexadecimal.

    Raises:
        UsageError, MissingError: the same errors as `sign`, if the key cannot be used.
    """
    private = _load_key(key, "private")
    public, signature = private.public_key().public_bytes_raw().hex(), private.sign(_message(members)).hex()
    line = f"ed25519 {public} {signature}\n".encode()
    return {name: bytes(members[name]) for name in members} | {SIGNATURE: line}, public


def require_signature(members: Members, key: str | Path) -> str:
    """Check that a module is signed by a key, and return the public key in hexadecimal.

    Args:
        key: a PEM file with an ed25519 public key.
    Raises:
        ModuleError: MG0506, the module is not signed, is signed by another key, or was modified. MG0501, no manifest.
        UsageError: MG0002, the key cannot be read.
        MissingError: MG0602, the package `cryptography` is not installed.
    """
    public, path = _load_key(key, "public"), members.path
    if "manifest.json" not in members:
        raise ModuleError(Diagnostic("MG0501", f"'{path}' is not a meshgen module: it has no manifest"))
    if SIGNATURE not in members:
        raise ModuleError(Diagnostic("MG0506", f"'{path}' is not signed", hint="sign it with meshgen sign"))
    form, public_hex = _FORM.fullmatch(bytes(members[SIGNATURE])), public.public_bytes_raw().hex()
    if form is None:
        raise ModuleError(Diagnostic("MG0506", f"the signature of '{path}' is malformed"))
    if (signer := form[1].decode()) != public_hex:
        raise ModuleError(Diagnostic("MG0506", f"'{path}' is signed by the key {signer}, not by {public_hex}"))
    try:
        public.verify(bytes.fromhex(form[2].decode()), _message(members))
    except importlib.import_module("cryptography.exceptions").InvalidSignature as error:
        text = f"the signature of '{path}' is wrong: it was made for another module, or this one was changed since"
        raise ModuleError(Diagnostic("MG0506", text)) from error
    return public_hex


def _message(members: Members) -> bytes:
    return _CONTEXT + hashlib.sha256(members["manifest.json"]).hexdigest().encode()


def _load_key(path: str | Path, kind: str) -> Any:
    """Return the `private` or `public` key in a file. Raises UsageError MG0002, or MissingError MG0602."""
    try:
        exceptions: Any = importlib.import_module("cryptography.exceptions")
        serialization: Any = importlib.import_module("cryptography.hazmat.primitives.serialization")
        ed25519: Any = importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError as error:
        hint = install("sign")
        raise MissingError(
            Diagnostic("MG0602", f"signatures need the package cryptography: {error}", hint=hint)
        ) from error
    file = container.path_of(path)
    try:
        content = read_file(file, _MAX_KEY_BYTES)
        read = {"private": lambda: serialization.load_pem_private_key(content, None),
                "public": lambda: serialization.load_pem_public_key(content)}  # fmt: skip
        loaded = read[kind]()
    # The library raises TypeError for an encrypted key.
    except (OSError, ValueError, TypeError, exceptions.UnsupportedAlgorithm) as error:
        reason = system_reason(error).splitlines()[0]
        raise UsageError(Diagnostic("MG0002", f"'{file}' cannot be read as a {kind} key: {reason}")) from error
    if not isinstance(loaded, ed25519.Ed25519PrivateKey if kind == "private" else ed25519.Ed25519PublicKey):
        raise UsageError(Diagnostic("MG0002", f"'{file}' has a {kind} key that is not ed25519"))
    return loaded
