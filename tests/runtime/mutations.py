"""Random changes to module files. Every digest is corrected afterwards, as an attacker could do."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshgen.runtime.module_file import container
from tests.runtime.deep_mutations import Forger
from tests.runtime.hostile_mutations import apply_hostile_changes

JUNK = [None, True, False, -1, 0, 1, 2, 3, 7, 64, 1 << 20, 1 << 31, (1 << 62) + 1, 1 << 63, -(1 << 63), 1 << 200, 0.5, -0.0, 1e300, 1e18, "",
        "x", "sum", "f32", "x:(0)2", "x:(1)2", "\x1b[2J", "\ud800", "../../etc/passwd", [], {}, [[]], [0, 0], {"tuple": []}, {"tuple": [0, 1]},
        {"tuple": ["a", "a"]}, {"a": 1}, {"float": "nan"}, {"array": {"dtype": "f32", "shape": [1 << 39], "splat": "AAAAAA=="}},
        {"scalar": {"dtype": "i1", "shape": [], "splat": "AQ=="}}, {"sharding": {"dims": [["a"], []]}}, {"type": ["f32", [1 << 40]]}]  # fmt: skip


@dataclass(frozen=True)
class Original:
    """A valid module: its name and members."""

    name: str
    members: Mapping[str, bytes]

    @staticmethod
    def of(name: str, path: Path) -> Original:
        """Read the members of the module file at `path`."""
        members = container.Container(path)
        return Original(name, {member: bytes(members[member]) for member in members})


def mutant(original: Original, rng: random.Random) -> dict[str, bytes]:
    """Return the members of `original` after one to four random changes."""
    members = dict(original.members)
    if rng.random() < 0.08:
        return sealed(with_bytes(members, rng))
    manifest_name = rng.choice([name for name in members if name.endswith("manifest.json")])
    manifest = json.loads(members[manifest_name])
    if "kernels" in manifest and rng.random() < 0.15:
        apply_hostile_changes(manifest, rng)
        members[manifest_name] = json.dumps(manifest).encode()
        return sealed(members)
    if "kernels" in manifest and rng.random() < 0.7:
        Forger(manifest, rng).forge()
        members[manifest_name] = json.dumps(manifest).encode()
        return sealed(members)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 4])):
        change(manifest, rng)
    members[manifest_name] = json.dumps(manifest).encode()
    return sealed(members)


def with_bytes(members: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    """Change a random member that is not a manifest: one byte, its length, or its entire content."""
    names = [name for name in members if "manifest." not in name]
    if not names:
        return members
    name = rng.choice(names)
    content = bytearray(members[name])
    draw = rng.randrange(4)
    if draw == 0 and content:
        content[rng.randrange(min(len(content), 200))] = rng.randrange(256)
    elif draw == 1:
        del content[rng.randrange(len(content) + 1) :]
    elif draw == 2:
        content = bytearray(members[rng.choice(names)])
    else:
        header = json.dumps({rng.choice(["0", "1", "w"]): {"dtype": rng.choice(["F32", "BOOL", 5]), "shape": rng.choice(JUNK), "data_offsets": rng.choice([[0, 0], [0, 4], *JUNK])}})  # fmt: skip
        content = bytearray(len(header).to_bytes(8, "little") + header.encode() + bytes(4))
    return members | {name: bytes(content)}


def sealed(members: dict[str, bytes]) -> dict[str, bytes]:
    """Return the members with corrected digests in all manifests, first in those of nested folders."""
    members = dict(members)
    for manifest_name in sorted(
        (name for name in members if name.endswith("manifest.json")), key=lambda name: -name.count("/")
    ):
        head = manifest_name.removesuffix("manifest.json")
        if head.startswith("sizes/"):
            continue  # the manifest of a specialization, whose members are looked up by their digests
        manifest = json.loads(members[manifest_name])
        names = [name.removeprefix(head) for name in members if name.startswith(head)]
        if not isinstance(manifest, dict):
            continue
        if isinstance(manifest.get("files"), dict):
            before = manifest["files"]
            files = {n: digest(members[head + n]) for n in names if n not in ("manifest.json", "manifest.sha256")}
            renamed = {before[n]: files[n] for n in files if n in before and isinstance(before[n], str)}
            manifest["files"] = files
            for row in _rows(manifest):
                table = row.get("members")
                if isinstance(table, dict):
                    row["members"] = {n: renamed.get(d, d) if isinstance(d, str) else d for n, d in table.items()}
        members[manifest_name] = json.dumps(manifest).encode()
        members[head + "manifest.sha256"] = digest(members[manifest_name]).encode()
    return members


def _rows(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    rows = manifest.get("specialisations")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def change(document: Any, rng: random.Random) -> None:
    """Replace a value, mostly with one of the same type, or drop, duplicate or swap an entry of the document."""
    groups = _groups(document)
    parent, key = rng.choice(groups[rng.choice(list(groups))])
    draw = rng.random()
    if draw < 0.3 and isinstance(parent[key], int | str) and not isinstance(parent[key], bool):
        _replace_all(document if rng.random() < 0.5 else parent, parent[key], _similar_value(parent[key], rng))
        return
    draw = rng.random()
    if draw < 0.1:
        if isinstance(parent, dict):
            parent.pop(key, None)
        else:
            del parent[key]
    elif draw < 0.2 and isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
    elif draw < 0.3 and isinstance(parent, list):
        other = rng.randrange(len(parent))
        parent[key], parent[other] = parent[other], parent[key]
    elif draw < 0.55:
        parent[key] = copy.deepcopy(rng.choice(_replacement_candidates(document, key, parent)))
    elif draw < 0.8 and isinstance(parent[key], int) and not isinstance(parent[key], bool):
        parent[key] = rng.choice([parent[key] + 1, parent[key] - 1, 2 * parent[key], -parent[key], parent[key] + (1 << 31), parent[key] << 50])  # fmt: skip
    else:
        parent[key] = copy.deepcopy(rng.choice(JUNK))


def _similar_value(value: Any, rng: random.Random) -> Any:
    """Return a random value of the type of `value`."""
    if isinstance(value, str):
        words = ("f32", "f64", "i32", "i1", "bf16", "c64", "ui8", "sum", "max", "and", "a", "x", "add", "and", "maximum", "exponential", "reduce_region", "reverse")  # fmt: skip
        return rng.choice(words)
    return rng.choice([0, 1, 2, 3, 5, value + 1, value - 1, value * 2, value * 1000, -value])


def _replace_all(document: Any, old: Any, new: Any) -> None:
    """Replace `old` everywhere in the document, since a consistent change passes more checks than an inconsistent one."""
    for _, parent, key in list(_positions(document, ())):
        if type(parent[key]) is type(old) and parent[key] == old:
            parent[key] = new


def _groups(document: Any) -> dict[str, list[tuple[Any, Any]]]:
    """Group the positions in a document by the part to which they belong.

    Choosing a group first lets small parts change as often as big ones.
    """
    table: dict[str, list[tuple[Any, Any]]] = {}
    for path, parent, key in _positions(document, ()):
        words = [str(part) for part in path if not isinstance(part, int)]
        group = next(
            (w for w in ("attrs", "regions", "operands", "results", "nodes", "body", "sharding") if w in words),
            words[0],
        )
        table.setdefault(group, []).append((parent, key))
    return table


def _positions(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Yield the path, parent and key of each value nested in `value`, down to depth 60."""
    if len(path) > 60:
        return
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key), value, key
        yield from _positions(inner, (*path, key))


def _replacement_candidates(document: Any, key: Any, parent: Any) -> list[Any]:
    """Return values that may replace `parent[key]`: entries of a list `parent`, or values with the same key elsewhere."""
    if isinstance(parent, list):
        return parent
    return [
        other_parent[other_key]
        for _, other_parent, other_key in _positions(document, ())
        if other_key == key and isinstance(other_parent, dict)
    ]
