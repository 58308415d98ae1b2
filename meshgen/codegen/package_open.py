"""Writes the module of a program with open sizes: its text, and a module for each combination of sizes made ahead of time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.codegen.package import code_members, sealed
from meshgen.runtime import container, tensors
from meshgen.runtime.limits import beyond, name_faults, open_faults, refuse_unreadable
from meshgen.runtime.open_manifest import decode_open, encode_open
from meshgen.runtime.open_program import OpenProgram
from meshgen.runtime.sizes import Sizes

Array = np.ndarray[Any, Any]


def write_open(path: str | Path, program: OpenProgram, text: str, held: Mapping[Sizes, Mapping[str, bytes]],
               weights: Mapping[str, Array]) -> OpenProgram:  # fmt: skip
    """Write the file; `held` are the members of each specialisation. Equal members stand in it once.

    Raises UsageError MG0003 if the file cannot be written.
    """
    for fault in name_faults([program.name, *program.axes, *(each.name for _, each in program.signature)]):
        raise beyond(program.name, fault)
    members = code_members({}, {program.stage: text})
    if weights:
        members["weights.safetensors"] = tensors.encode(weights)
    digests = {name: _digest(content) for name, content in members.items()}
    taken = {*digests.values()}
    described: dict[Sizes, dict[str, str]] = {}
    for number, (sizes, own) in enumerate(held.items()):
        described[sizes] = {name: _digest(content) for name, content in sorted(own.items())}
        for name, digest in described[sizes].items():
            if digest not in taken:
                taken.add(digest)
                members[f"sizes/{number:02}/{name}"] = own[name]
    program = replace(program, held=described)
    for fault in open_faults(program):
        raise beyond(program.name, fault)
    files = {name: _digest(members[name]) for name in sorted(members)}
    manifest = sealed(encode_open(program, files))
    refuse_unreadable(program.name, manifest["manifest.json"], decode_open)
    container.write(Path(path), members | manifest)
    return program


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
