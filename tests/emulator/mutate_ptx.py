"""Mutate PTX to measure how many faults the emulated GPU detects.

    python -m tests.emulator.mutate_ptx --count 1000 --seed 1 PROGRAM...

A mutant is detected if it ends in a fault or in errors beyond the rounding bounds. If a mutant gives equal bits,
`equivalence.py` may prove that it does so for all inputs. Examples are a dropped copy of no bytes, a changed comparison
of values that are never equal, and a dropped barrier that orders nothing by itself. All others count as undetected.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from meshgen.emulator.faults import DeviceFault
from tests.emulator.equivalence import same
from tests.emulator.programs import Case, CodegenError, cases_of, programs_in, say

Change = Callable[[str, random.Random], str]
COMPARISONS = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq"}


def dropped(line: str, rng: random.Random) -> str:
    return ""


def offset(line: str, rng: random.Random) -> str:
    """Shift the address of an access by one or many elements."""
    by = rng.choice([4, 16, 64, 512, -16])
    return re.sub(r"\[\s*(%\w+)(?:\s*\+\s*(-?\d+))?\s*\]", lambda m: f"[{m[1]}+{int(m[2] or 0) + by}]", line, count=1)


def predicate(line: str, rng: random.Random) -> str:
    """Negate the guard, or change the comparison by one."""
    if line.lstrip().startswith("@"):
        return line.replace("@!", "@", 1) if "@!" in line else line.replace("@", "@!", 1)
    return re.sub(r"setp\.(lt|le|gt|ge|eq|ne)\b", lambda m: f"setp.{COMPARISONS[m[1]]}", line)


def operands(line: str, rng: random.Random) -> str:
    """Swap the first two source operands of a noncommutative instruction."""
    head, *rest = line.rstrip(";").split(",", 3)
    rest[0], rest[1] = rest[1], rest[0]
    return ",".join([head, *rest]) + ";"


def shuffle(line: str, rng: random.Random) -> str:
    """Halve the distance or the source lane of a shuffle. (17 instead of 16 would not change a butterfly shuffle.)"""
    return re.sub(r", (\d+), (\d+), -1;", lambda m: f", {int(m[1]) // 2 or 2}, {m[2]}, -1;", line)


def constant(line: str, rng: random.Random) -> str:
    """Flip one bit of a shift, mask or addend."""
    return re.sub(r", (-?\d+);$", lambda m: f", {int(m[1]) ^ 1 << rng.randrange(3)};", line.rstrip())


def transposed(line: str, rng: random.Random) -> str:
    return line.replace(".trans", "") if ".trans" in line else line.replace("m8n8.x4.", "m8n8.x4.trans.")


KINDS: dict[str, tuple[str, Change]] = {
    "barrier dropped": (r"(bar|barrier)\.sync", dropped),
    "wait dropped": (r"cp\.async\.wait_group|wgmma\.wait_group|mbarrier\.try_wait", dropped),
    "commit dropped": (r"cp\.async\.commit_group|wgmma\.commit_group", dropped),
    "fence dropped": (r"fence\.proxy\.async", dropped),
    "copy dropped": (r"(@!?%\w+ )?cp\.async\.(ca|cg)\.", dropped),
    "store dropped": (r"(@!?%\w+ )?st\.(shared|global)", dropped),
    "offset changed": (r"(@!?%\w+ )?(ld|st)\.(shared|global)|ldmatrix|stmatrix|(@!?%\w+ )?cp\.async\.c", offset),
    "predicate changed": (r"@!?%\w+ (ld|st|cp|bra)|setp\.(lt|le|gt|ge|eq|ne)\.", predicate),
    "operands swapped": (r"(sub|div\.full|shl|shr|selp|prmt)\.\S+\s+%\w+, %\w+, [^,]+", operands),
    "shuffle changed": (r"shfl\.sync\.\w+\.b32 .*, \d+, \d+, -1;", shuffle),
    "constant changed": (
        r"(add\.s32|add\.s64|and\.b32|or\.b32|xor\.b32|shl\.b32|shr\.u32|mad\.wide\S+|mul\.wide\S+|bfe\S+)\s.*, -?\d+;$",
        constant,
    ),
    "matrix transposed": (r"ldmatrix", transposed),
}


def sites(ptx: str) -> Iterator[tuple[str, int]]:
    """Yield the kind and the line index of every possible mutation of `ptx`."""
    for number, line in enumerate(ptx.splitlines()):
        yield from ((kind, number) for kind, (pattern, _) in KINDS.items() if re.match(pattern, line.strip()))


def mutant(ptx: str, kind: str, number: int, rng: random.Random) -> str:
    """Return `ptx` with a mutation of `kind` in line `number`."""
    lines = ptx.splitlines()
    lines[number] = KINDS[kind][1](lines[number], rng)
    return "\n".join(lines) + "\n"


def verdict(case: Case, ptx: str) -> str:
    """Run a mutant and return `fault: KIND`, `numbers`, `equivalent`, `same bits` or `silent`.

    `numbers` means errors beyond the bounds, and `equivalent` equal bits that are proven for all inputs. `same bits`
    are not proven, and `silent` are other bits within the bounds.
    """
    try:
        results = case.run(ptx)
    except DeviceFault as fault:
        return f"fault: {fault.kind}"
    if case.excess(results) > 1:
        return "numbers"
    is_same = all(x.tobytes() == y.tobytes() for x, y in zip(results, case.results, strict=True))
    if is_same and same(case.entry(), case.entry(ptx), lambda: case.run(races=False)):
        return "equivalent"
    return "same bits" if is_same else "silent"


def campaign(cases: Sequence[Case], count: int, seed: int) -> Iterator[tuple[Case, str, int, str]]:
    """Run `count` mutants, if possible equally many of each kind, and yield the case, kind, line and verdict of each."""
    rng = random.Random(seed)
    sites_by_kind: dict[str, list[tuple[Case, int]]] = {kind: [] for kind in KINDS}
    for case in cases:
        for kind, number in sites(case.ptx):
            sites_by_kind[kind].append((case, number))
    for kind_sites in sites_by_kind.values():
        rng.shuffle(kind_sites)
    remaining = count
    while remaining and any(sites_by_kind.values()):
        for kind in [kind for kind, kind_sites in sites_by_kind.items() if kind_sites][:remaining]:
            case, number = sites_by_kind[kind].pop()
            text = mutant(case.ptx, kind, number, rng)
            if text != case.ptx:
                remaining -= 1
                yield case, kind, number, verdict(case, text)


def with_code(file: Path, archs: Sequence[str]) -> list[Case]:
    """Return the kernels of a program, or an empty list if one of them cannot be generated."""
    with contextlib.suppress(CodegenError):
        return list(cases_of(file, archs))
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+", help="files, or folders of .shardy.mlir files")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=8, help="number of programs per folder, shortest first")
    parser.add_argument("--archs", default="sm_80,sm_90")
    options = parser.parse_args()
    files = [f for path in options.programs for f in (programs_in(path, options.files) if path.is_dir() else [path])]
    cases = [case for file in files for case in with_code(file, options.archs.split(","))]
    begin = time.perf_counter()
    table: Counter[tuple[str, str]] = Counter()
    for case, kind, number, outcome in campaign(cases, options.count, options.seed):
        table[kind, outcome] += 1
        if outcome in ("silent", "same bits"):
            say(
                f"{outcome}: {kind}: {case.name} {case.arch}: line {number + 1}: {case.ptx.splitlines()[number].strip()}"
            )
    for kind in KINDS:
        say(f"{kind:20} {', '.join(f'{outcome} {n}' for (k, outcome), n in sorted(table.items()) if k == kind)}")
    by_verdict = Counter[str]()
    for (_, outcome), number in table.items():
        by_verdict[outcome.split(":")[0]] += number
    equivalent, caught = by_verdict["equivalent"], by_verdict["fault"] + by_verdict["numbers"]
    effective_count = table.total() - equivalent
    say(f"{table.total()} mutants of {len(cases)} kernels, seed {options.seed}: {equivalent} are proven equivalent; of the others "
        f"{caught / max(1, effective_count):.1%} seen, {by_verdict['same bits']} gave the same bits, {by_verdict['silent']} bits near enough, "
        f"{time.perf_counter() - begin:.0f} s")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
