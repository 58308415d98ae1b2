"""Mutated PTX: how much of it the emulated GPU sees. `python -m tests.emulator.mutate_ptx --count 1000 --seed 1 PROGRAM...`.

A mutant is seen where it ends in a fault or in numbers beyond what rounding explains. Of those that give the same bits,
some are proven to do so for all inputs (`equivalence.py`): a copy of no bytes, a comparison that never is equal, a barrier
that orders nothing by itself. All others count as not seen.
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
    """The address of an access, by one access or many."""
    by = rng.choice([4, 16, 64, 512, -16])
    return re.sub(r"\[\s*(%\w+)(?:\s*\+\s*(-?\d+))?\s*\]", lambda m: f"[{m[1]}+{int(m[2] or 0) + by}]", line, count=1)


def predicate(line: str, rng: random.Random) -> str:
    """The guard turned round, or the comparison by one."""
    if line.lstrip().startswith("@"):
        return line.replace("@!", "@", 1) if "@!" in line else line.replace("@", "@!", 1)
    return re.sub(r"setp\.(lt|le|gt|ge|eq|ne)\b", lambda m: f"setp.{COMPARISONS[m[1]]}", line)


def operands(line: str, rng: random.Random) -> str:
    """The first two sources of an instruction whose order matters, exchanged."""
    head, *rest = line.rstrip(";").split(",", 3)
    rest[0], rest[1] = rest[1], rest[0]
    return ",".join([head, *rest]) + ";"


def shuffle(line: str, rng: random.Random) -> str:
    """The distance of a shuffle, or the thread that it reads from: half as far. (16 + 1 for 16 would change no butterfly.)"""
    return re.sub(r", (\d+), (\d+), -1;", lambda m: f", {int(m[1]) // 2 or 2}, {m[2]}, -1;", line)


def constant(line: str, rng: random.Random) -> str:
    """A shift, mask or addend, by one bit."""
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
    """All places where something can be changed: the kind, and the number of the line."""
    for number, line in enumerate(ptx.splitlines()):
        yield from ((kind, number) for kind, (pattern, _) in KINDS.items() if re.match(pattern, line.strip()))


def mutant(ptx: str, kind: str, number: int, rng: random.Random) -> str:
    """The text with one line changed."""
    lines = ptx.splitlines()
    lines[number] = KINDS[kind][1](lines[number], rng)
    return "\n".join(lines) + "\n"


def verdict(case: Case, ptx: str) -> str:
    """`fault: KIND`, `numbers`, `equivalent`, `same bits`, or `silent`."""
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
    """Mutants, as many of each kind as can be: the case, kind, line and verdict of each."""
    rng = random.Random(seed)
    found: dict[str, list[tuple[Case, int]]] = {kind: [] for kind in KINDS}
    for case in cases:
        for kind, number in sites(case.ptx):
            found[kind].append((case, number))
    for places in found.values():
        rng.shuffle(places)
    left = count
    while left and any(found.values()):
        for kind in [kind for kind, places in found.items() if places][:left]:
            case, number = found[kind].pop()
            text = mutant(case.ptx, kind, number, rng)
            if text != case.ptx:
                left -= 1
                yield case, kind, number, verdict(case, text)


def with_code(file: Path, archs: Sequence[str]) -> list[Case]:
    """The kernels of a program; none where one of them cannot be generated."""
    with contextlib.suppress(CodegenError):
        return list(cases_of(file, archs))
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+", help="files, or folders of .shardy.mlir files")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=8, help="of each folder, the shortest")
    parser.add_argument("--archs", default="sm_80,sm_90")
    options = parser.parse_args()
    files = [f for each in options.programs for f in (programs_in(each, options.files) if each.is_dir() else [each])]
    cases = [case for file in files for case in with_code(file, options.archs.split(","))]
    begin = time.perf_counter()
    table: Counter[tuple[str, str]] = Counter()
    for case, kind, number, seen in campaign(cases, options.count, options.seed):
        table[kind, seen] += 1
        if seen in ("silent", "same bits"):
            say(f"{seen}: {kind}: {case.name} {case.arch}: line {number + 1}: {case.ptx.splitlines()[number].strip()}")
    for kind in KINDS:
        say(f"{kind:20} {', '.join(f'{seen} {n}' for (k, seen), n in sorted(table.items()) if k == kind)}")
    by_verdict = Counter[str]()
    for (_, seen), number in table.items():
        by_verdict[seen.split(":")[0]] += number
    equivalent, caught = by_verdict["equivalent"], by_verdict["fault"] + by_verdict["numbers"]
    others = table.total() - equivalent
    say(f"{table.total()} mutants of {len(cases)} kernels, seed {options.seed}: {equivalent} are proven equivalent; of the others "
        f"{caught / max(1, others):.1%} seen, {by_verdict['same bits']} gave the same bits, {by_verdict['silent']} bits near enough, "
        f"{time.perf_counter() - begin:.0f} s")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
