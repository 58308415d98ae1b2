"""Mutate modules for the C loader at random, with correct digests. The loader may refuse a mutant, fail, or run it.

    python -m tests.native.mutate --count 2000 [--seed 1] [--keep FOLDER]

The loader and its libraries are built with the address and undefined-behavior sanitizers. If a mutant makes the loader
access invalid memory, leak, crash or hang, the campaign keeps the mutant and reports its seed.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meshgen.runtime.loading import load
from meshgen.runtime.module_file import container
from meshgen.runtime.module_file.members import Held
from meshgen.runtime.native.export import with_members, write_native
from meshgen.runtime.native.table_format import TABLE
from meshgen.runtime.random_arrays import random_array
from tests.native import loader
from tests.native.programs import PROGRAMS

ALLOWED = (0, 1, 2, 4, 5)  # exit code 2: names or shapes no longer match the input files
SECONDS = 60  # wall time of a loader run; chosen: far more than a run under sanitizers needs
MANIFEST = ("manifest.json", "manifest.sha256")
JUNK = [0, 1, 2, 3, 5, 7, 8, 9, 255, 256, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 53) + 1, 1 << 62,
        (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 8]  # fmt: skip


@dataclass(frozen=True)
class Original:
    """A valid module, and the loader options that pass its arguments."""

    name: str
    members: Mapping[str, bytes]
    words: list[str]


def original(name: str, folder: Path) -> Original:
    path = folder / f"{name.replace(' ', '_')}.mgx"
    PROGRAMS[name](path)
    write_native(path, path)
    module, words = load(path, runs=False), list[str]()
    for position, binding in enumerate(module.inputs):
        file = folder / f"{path.stem}_{position}.npy"
        np.save(file, random_array(binding.type, [position]))
        words += ["--input", f"{binding.name}={file}"]
    for binding in module.outputs:
        words += ["--output", f"{binding.name}={folder / 'out.npy'}"]
    module_members = container.Container(path)
    return Original(name, {member: bytes(module_members[member]) for member in module_members}, words)


def forge(source: Original, rng: random.Random, path: Path) -> None:
    """Write a mutant of `source` to `path`. It mostly changes the launch table, else another member or the file itself."""
    members = {name: content for name, content in source.members.items() if name not in MANIFEST}
    member = TABLE if rng.random() < 0.8 else rng.choice(list(members))
    members[member] = _table(members[member], rng) if member == TABLE else _bytes(members[member], rng)
    members = with_members(Held(path, source.members), members)
    if rng.random() < 0.05:
        members["manifest.json"] = _bytes(members["manifest.json"], rng)
        members["manifest.sha256"] = hashlib.sha256(members["manifest.json"]).hexdigest().encode()
    container.write(path, members)
    if rng.random() < 0.1:
        path.write_bytes(_bytes(path.read_bytes(), rng))


def _table(content: bytes, rng: random.Random) -> bytes:
    words = list(struct.unpack(f"<{len(content) // 8}Q", content))
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        index = rng.randrange(len(words))
        choice = rng.random()
        if choice < 0.35:
            words[index] = rng.choice(JUNK)
        elif choice < 0.65:
            words[index] = (words[index] + rng.choice([-1, 1, -8, 8, 256, -256, 1 << 20])) % (1 << 64)
        elif choice < 0.85:
            words[index] = rng.choice(words)
        elif choice < 0.9:
            words[index] ^= 1 << rng.randrange(64)
        elif choice < 0.95:
            del words[index : index + rng.choice([1, 1, 3, 9])]
        else:
            words[index:index] = [rng.choice(words) for _ in range(rng.choice([1, 3, 9]))]
    return struct.pack(f"<{len(words)}Q", *words)


def _bytes(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return b"\0"
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 4, 16])):
        index = rng.randrange(min(len(changed), rng.choice([64, 1 << 20])))
        changed[index] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(changed[: rng.randrange(1, len(changed) + 1)] if rng.random() < 0.1 else changed)


class Campaign:
    """The loader built with sanitizers, and the original modules that are mutated."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        self.program = loader.sanitized()
        self._libraries = {
            80: loader.build_libraries(folder / "cubins", "null_gpu.c", loader.SANITIZERS),
            120: loader.build_libraries(folder / "ptx", "null_gpu.c", f"{loader.SANITIZERS} -DKNOWS_PARAMETERS"),
        }
        self.sources = [original(name, folder) for name in names]

    def environment(self, capability: int) -> dict[str, str]:
        """Return environment variables with which the loader finds GPUs of compute capability `capability`."""
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self._libraries[capability]),
            "MGX_CAPABILITY": str(capability),
            "ASAN_OPTIONS": "exitcode=99:allocator_may_return_null=1:max_allocation_size_mb=1024",
        }

    def run(self, path: Path, words: list[str], capability: int) -> tuple[int, str]:
        """Run the loader. Return its exit code, and a description of a forbidden outcome or ""."""
        environment = self.environment(capability)
        command = [str(self.program), str(path), *words, "--steps", "3", "--time-limit", "0.5"]
        try:
            completed = subprocess.run(
                command, capture_output=True, text=True, errors="replace", env=environment, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return 99, f"more than {SECONDS} s"
        sanitizer_errors = [
            line for line in completed.stderr.splitlines() if "ERROR: " in line or "runtime error" in line
        ]
        fault = "\n".join(sanitizer_errors) or (
            "" if completed.returncode in ALLOWED else f"exit {completed.returncode}: {completed.stderr[-500:]}"
        )
        return completed.returncode, fault

    def mutate(self, first: int, count: int) -> tuple[collections.Counter[int], list[str]]:
        """Run `count` mutants with seeds from `first`. Return the number of mutants per exit code, and the faults."""
        table, faults, path = collections.Counter[int](), list[str](), self.folder / "mutant.mgx"
        for seed in range(first, first + count):
            source, rng = self.sources[seed % len(self.sources)], random.Random(seed)
            forge(source, rng, path)
            code, fault = self.run(path, source.words, rng.choice([80, 120]))
            table[code] += 1
            if fault:
                path.rename(self.folder / f"mutant-{seed}.mgx")
                faults.append(f"seed {seed} ({source.name}): {fault}")
        return table, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for mutants with faults")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True, parents=True)
    table, faults = Campaign(folder.resolve(), list(PROGRAMS)).mutate(options.seed, options.count)
    for code, count in sorted(table.items()):
        sys.stdout.write(f"exit {code:2}: {count}\n")
    for fault in faults:
        sys.stdout.write(fault + "\n")
    sys.stdout.write(f"{options.count} mutants, {len(faults)} with faults, kept in {folder}\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
