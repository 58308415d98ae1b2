"""Creation of a module file that contains the launch table and the C sources of its loader."""

from __future__ import annotations

import hashlib
from pathlib import Path

from meshgen.errors import Diagnostic, UsageError, listed
from meshgen.runtime.loading import load
from meshgen.runtime.module_file import container
from meshgen.runtime.module_file.json_values import read_json
from meshgen.runtime.module_file.manifest_json import sealed
from meshgen.runtime.module_file.members import Members
from meshgen.runtime.native.table import native_members
from meshgen.runtime.open_module import OpenModule

FOLDER = "native/"
SOURCES = Path(__file__).parents[2] / "native"  # C sources of the loader


def write_native(source: str | Path, target: str | Path) -> dict[str, bytes]:
    """Write the module to `target` with the members for the C loader added, and return the added members.

    Raises:
        UsageError: MG0001, the module has open sizes or several entry functions.
        MeshgenError: any error of `load` and `native_members`.
    """
    module = load(source, runs=False)
    if isinstance(module, OpenModule):
        hint = "the C loader needs static sizes: compile with --mesh and --shape"
        raise UsageError(
            Diagnostic("MG0001", f"'{source}' has open sizes: {module.program.open_sizes_text()}", hint=hint)
        )
    if len(module.entries) > 1:
        text = f"'{source}' has {len(module.entries)} entry functions: {listed([*module.entries])}"
        raise UsageError(Diagnostic("MG0001", text, hint="the C loader supports one: compile with --entry"))
    added = native_members(module)
    container.write(Path(target), with_members(module.members, added))
    return added


def with_members(members: Members, added: dict[str, bytes]) -> dict[str, bytes]:
    """Return the members of a module with folder `native` replaced by `added`, and with an updated manifest.

    A cryptographic signature of the old manifest becomes invalid.
    """
    manifest = read_json(bytes(members["manifest.json"]))
    files = {name: digest for name, digest in manifest["files"].items() if not name.startswith(FOLDER)}
    files |= {name: hashlib.sha256(content).hexdigest() for name, content in added.items()}
    kept = {name: bytes(members[name]) for name in files if name not in added}
    return kept | added | sealed(manifest | {"files": {name: files[name] for name in sorted(files)}})
