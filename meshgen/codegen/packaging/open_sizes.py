"""Writer of a program with symbolic sizes: the program's text, and a module for each compiled combination of sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.codegen.packaging.entries import digest, distinct_members
from meshgen.codegen.packaging.package import code_members, sealed
from meshgen.runtime.module_file import tensors
from meshgen.runtime.module_file.limits import beyond, name_faults, open_faults, require_readable
from meshgen.runtime.module_file.open_manifest import decode_open, encode_open
from meshgen.runtime.open_program import OpenProgram
from meshgen.runtime.sizes import Sizes

Array = np.ndarray[Any, Any]


def open_members(program: OpenProgram, text: str, held: Mapping[Sizes, Mapping[str, bytes]],
                 weights: Mapping[str, Array]) -> dict[str, bytes]:  # fmt: skip
    """Return the members of the file. `held` lists the members of each specialization (combination of sizes).

    Equal members are stored once. Raises ModuleError MG0504.
    """
    for fault in name_faults([program.name, *program.axes, *(argument.name for _, argument in program.signature)]):
        raise beyond(program.name, fault)
    members = code_members({}, {program.stage: text})
    if weights:
        members["weights.safetensors"] = tensors.encode(weights)
    taken = frozenset(map(digest, members.values()))
    specialized, digests = distinct_members("sizes", list(held.values()), taken)
    members |= specialized
    program = replace(program, held=dict(zip(held, digests, strict=True)))
    for fault in open_faults(program):
        raise beyond(program.name, fault)
    files = {name: digest(members[name]) for name in sorted(members)}
    manifest = sealed(encode_open(program, files))
    require_readable(program.name, manifest["manifest.json"], decode_open)
    return members | manifest
