"""The keys of each command's `--json` document. `json_keys.txt` lists the keys that meshgen promises to keep.

    python -m tests.commands.json_keys     rewrites the file, after a key was added

Keys are paths: `a.b` is key `b` of object `a`, and `a[].b` is key `b` of each object in list `a`. `a.*` stands for
names from the program.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from meshgen.cli import main

FILE = Path(__file__).with_name("json_keys.txt")
HEAD = "# The keys of --json documents that docs/compatibility.md promises; python -m tests.commands.json_keys rewrites this file.\n"
PROGRAM = """shard.grid @mesh(shape = 2) {axis_names = ["x"]}
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.tanh %0 : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
"""
# Objects whose keys are names from the program, its target or the machine, so that the keys are not listed.
TABLES = {"mesh", "counts", "constants", "specs", "by_kind", "sizes", "multiplied_as", "toolchain", "settings", "members",
          "formula.devices", "instructions", "metadata", "binaries", "before", "after", "compared", "environment"}  # fmt: skip
PRIVATE = {"planned"}  # objects that only meshgen itself reads, so that their keys may change
SPEC = ("--spec", "x=_,x")
COMMANDS = (
    ("compile", "m.mlir", *SPEC, "--target", "cuda:sm_80", "-o", "m.mgx"),
    ("check", "m.mlir", *SPEC),
    ("explain", "m.mlir", *SPEC),
    ("inspect", "m.mgx"),
    ("run", "m.mgx", "--expect", "m.mlir"),
    ("opt", "m.mlir"),
    ("search", "m.mlir"),
    ("simulate", "m.mgx"),
    ("report", "m.mlir", *SPEC, "-o", "m.html"),
    ("diff", "m.mgx", "m.mgx"),
    ("native", "m.mgx"),
    ("tune", "m.mgx", "--device", "emulate", "--candidates", "1"),
    ("sign", "m.mgx", "--key", "private.pem"),
    ("verify", "m.mgx", "--key", "public.pem"),
    ("bench", "collectives", "--engine", "simulated", "-b", "1K", "-e", "1K"),
    ("completion", "bash"),
    ("doctor",),
    ("check", "missing.mlir"),  # this command's document describes a refused program
)


def documents() -> Iterator[tuple[str, Any]]:
    """Yield the name and the `--json` document of each command. The current directory is empty at first; commands find
    a program and a signing key in it.
    """
    Path("m.mlir").write_text(PROGRAM)
    _write_keys()
    for words in COMMANDS:
        output, errors = StringIO(), StringIO()
        with redirect_stdout(output), redirect_stderr(errors):
            main([*words, "--json"])
        assert output.getvalue(), f"{words}: {errors.getvalue()}"
        yield "(refused)" if "missing.mlir" in words else words[0], json.loads(output.getvalue())
    errors = StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(errors):
        main(["check", "missing.mlir", "--diagnostics", "json"])
    yield "--diagnostics", json.loads(errors.getvalue())


def _write_keys() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    Path("private.pem").write_bytes(private)
    Path("public.pem").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def keys(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each key of a document."""
    if isinstance(value, list):
        for entry in value:
            yield from keys(entry, f"{path}[]")
    elif isinstance(value, dict):
        is_table = any(path == name or path.endswith(f".{name}") for name in TABLES)
        for name, entry in value.items():
            child = "*" if is_table else name
            yield (child_path := f"{path}.{child}" if path else child)
            if name not in PRIVATE:
                yield from keys(entry, child_path)


def lines() -> list[str]:
    """Run every command. Return a line with the command and the key for each key of its document."""
    return sorted({f"{command} {key}" for command, document in documents() for key in keys(document)})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        FILE.write_text(HEAD + "".join(f"{line}\n" for line in lines()))
