"""The sweep over collectives, sizes, types and reductions, with the terms and options of nccl-tests.

meshgen bench collectives all_reduce -b 8 -e 128M -f 2            NCCL over the GPUs of this machine
mpiexec -n 4 meshgen bench collectives --engine mpi               the collectives of the MPI library
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from meshgen.benchmarks.collectives.cases import (
    GROUPS,
    IN_PLACE,
    KINDS,
    OPS,
    REDUCING,
    TYPES,
    Case,
    bus_factor,
    case_of,
)
from meshgen.benchmarks.collectives.choice import ENGINES, engine_of
from meshgen.benchmarks.collectives.engines import Effort, Engine, Outcome
from meshgen.benchmarks.profile import profile_of, profile_place, write_profile
from meshgen.benchmarks.records import Record
from meshgen.benchmarks.samples import summary
from meshgen.benchmarks.suite import Options, Suite, Take
from meshgen.errors import Diagnostic, UsageError
from meshgen.machine.reading import machine_of
from meshgen.names import byte_count
from meshgen.numbers import natural, positive

TITLES = {
    "what": "kind", "group": "group", "size": "size (B)", "count": "count (elements)", "type": "type", "redop": "redop", "root": "root",
    "us": "time (us)", "algbw": "algbw (GB/s)", "busbw": "busbw (GB/s)", "wrong": "#wrong", "spread": "spread",
    "in_us": "in-place time", "in_algbw": "algbw", "in_busbw": "busbw", "in_wrong": "#wrong", "in_spread": "spread",
}  # fmt: skip
MOST_SIZES = 1000  # largest number of message sizes in one run (chosen: a run takes minutes, not hours)


def size_of(text: str) -> int:
    """Parse a number of bytes: `8`, `64K`, `128M`, `1G` (powers of 1,024, as in nccl-tests), or any text that
    `byte_count` accepts.
    """
    size = byte_count(text)
    if not size:
        raise argparse.ArgumentTypeError(f"expected a size such as 8, 64K, 128M or 1G, got '{text:.40}'")
    return size


def add_options(group: Options) -> None:
    group.add_argument("--engine", choices=ENGINES, default="nccl", help="nccl: GPUs of this machine, or one per process of a launcher; mpi: the MPI library, a rank per process of mpiexec; "
                       "simulated: the cost model's times; emulated: NCCL's calls on emulated GPUs, without times (default: %(default)s)")  # fmt: skip
    sizes = ("-b", "--minbytes", "1K", "smallest size"), ("-e", "--maxbytes", "32M", "largest size")
    for short, long, default, meaning in sizes:
        group.add_argument(
            short, long, metavar="SIZE", type=size_of, default=size_of(default), help=f"{meaning} (default: {default})"
        )
    group.add_argument(
        "-f", "--stepfactor", metavar="N", type=positive, default=4, help="factor between sizes (default: 4)"
    )
    group.add_argument("-i", "--stepbytes", metavar="SIZE", type=size_of, help="step between sizes, instead of -f")
    group.add_argument("-n", "--iters", metavar="N", type=positive, default=20, help="calls per sample (default: 20)")
    group.add_argument(
        "-w", "--warmup", metavar="N", type=natural, default=5, help="calls before the samples (default: 5)"
    )
    group.add_argument(
        "-m",
        "--samples",
        metavar="N",
        type=positive,
        default=5,
        help="samples per size; their median is reported (default: 5)",
    )
    group.add_argument(
        "-c", "--check", metavar="N", type=natural, default=1, help="1: count wrong elements (default: 1)"
    )
    group.add_argument(
        "-d",
        "--datatype",
        metavar="TYPES",
        default="float",
        help=f"element types: {', '.join(TYPES)} or all (default: float)",
    )
    group.add_argument(
        "-o", "--op", metavar="OPS", default="sum", help=f"reductions: {', '.join(OPS)} or all (default: sum)"
    )
    group.add_argument(
        "-r", "--root", metavar="N", type=natural, default=0, help="root rank of broadcast and reduce (default: 0)"
    )
    group.add_argument("-g", "--ngpus", metavar="N", type=positive, help="number of ranks in this process (default: all GPUs; 8 simulated or 4 emulated GPUs)")  # fmt: skip
    group.add_argument("--groups", metavar="NAMES", help="groups of ranks that communicate: all, host (the ranks of each host), across (one rank of each host); default: all, with --save-profile every kind that exists")  # fmt: skip
    group.add_argument("--machine", metavar="NAME", help="machine of the simulated engine; with --save-profile, the source of parameters that are not measured")  # fmt: skip
    group.add_argument("--arch", default="sm_90", help="architecture of emulated GPUs (default: %(default)s)")
    group.add_argument(
        "--save-profile",
        metavar="FILE.json",
        help="write the measured latency and rate of each class of links to this profile, for --machine FILE",
    )


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any] | None:
    """Measure every case that the options select. Raises UsageError: MG0001; MissingError: MG0602, MG0603;
    RuntimeFailure: MG0604, MG0609.
    """
    kinds = _checked_names(
        options.names, KINDS, "kind of collective", KINDS[:3] + ("sendrecv",) * bool(options.save_profile)
    )
    types, ops = (
        _checked_names([] if text == "all" else text.split(","), names, what, tuple(names))
        for text, names, what in ((options.datatype, TYPES, "type"), (options.op, OPS, "reduction"))
    )
    if options.stepfactor < 2:
        raise UsageError(Diagnostic("MG0001", "-f must be at least 2"))
    sizes = sizes_of(options.minbytes, options.maxbytes, options.stepfactor, options.stepbytes)
    machine = machine_of(options.machine) if options.machine else None
    profile_path = profile_place(options.save_profile) if options.save_profile else None
    effort = Effort(options.warmup, options.iters, options.samples, bool(options.check))
    engine = engine_of(options.engine, options.ngpus, machine, options.arch, max(sizes))
    try:
        groups = _groups(engine, options.groups, profile_path is not None)
        records: list[Record] = []
        for case in _cases(
            engine, kinds, groups, [TYPES[t] for t in types], [OPS[o] for o in ops], sizes, options.root
        ):
            record = _record(engine, options.engine, case, effort)
            records.append(record)
            if engine.reports:
                take(record)
        if profile_path and engine.reports:
            write_profile(profile_of(records, profile_path.stem, machine), profile_path)
    except BaseException as error:
        engine.close(error)
        raise
    engine.close()
    return dict(engine.facts) if engine.reports else None


def sizes_of(least: int, most: int, factor: int, step: int | None) -> list[int]:
    """Return the message sizes from `least` to `most` bytes. Raises UsageError MG0001 if there is none or more than
    `MOST_SIZES`.
    """
    sizes: list[int] = []
    size = least
    while size <= most and len(sizes) <= MOST_SIZES:
        sizes.append(size)
        size = size + step if step else size * factor
    if not 0 < len(sizes) <= MOST_SIZES:
        text = f"sizes from {least} to {most} bytes are {'none' if not sizes else f'more than {MOST_SIZES}'}"
        raise UsageError(Diagnostic("MG0001", text, hint="write for example -b 8 -e 128M -f 2"))
    return sizes


def _checked_names(
    names: Sequence[str], valid_names: Sequence[str] | Mapping[str, str], what: str, default: Sequence[str]
) -> Sequence[str]:
    if unknown := [name for name in names if name not in valid_names]:
        hint = f"one of {', '.join(valid_names)}"
        raise UsageError(Diagnostic("MG0001", f"unknown {what} '{unknown[0]:.40}'", hint=hint))
    return names or default


def _groups(engine: Engine, text: str | None, are_all: bool) -> Sequence[str]:
    available = engine.layout.groups
    if text is None:
        return available if are_all else ["all"]
    names = _checked_names(text.split(","), list(GROUPS), "group", available)
    if missing := [name for name in names if name not in available]:
        text_ = f"no ranks form groups '{missing[0]}': the {engine.layout.ranks} ranks are all on one host, or each on its own"
        raise UsageError(Diagnostic("MG0001", text_))
    return names


def _cases(engine: Engine, kinds: Sequence[str], groups: Sequence[str], types: Sequence[str], ops: Sequence[str],
           sizes: Sequence[int], root: int) -> Iterator[Case]:  # fmt: skip
    for kind in kinds:
        for group in groups:
            ranks = engine.layout.mesh.group_size(GROUPS[group])
            if not 0 <= root < ranks:
                raise UsageError(Diagnostic("MG0001", f"root {root} is not one of the {ranks} ranks of a group"))
            for dtype in types:
                for op in ops if kind in REDUCING else ("",):
                    cases = (case_of(kind, size, dtype, op, group, ranks, root) for size in sizes)
                    yield from dict.fromkeys(cases)  # different small sizes can give the same number of elements


def _record(engine: Engine, name: str, case: Case, effort: Effort) -> Record:
    """Measure a case and return its record, a row of nccl-tests. Includes the in-place call if the collective has one."""
    nccl_names = {value: key for key, value in (*TYPES.items(), *OPS.items())}
    record: dict[str, Any] = {
        "suite": "collectives", "what": case.kind, "engine": name, "group": case.group, "ranks": case.ranks,
        "per_host": engine.layout.per_host, "size": case.size, "count": case.count, "type": nccl_names[case.dtype],
        "redop": nccl_names.get(case.reduction, "none"), "root": case.root if case.kind in ("broadcast", "reduce") else -1,
    }  # fmt: skip
    record |= _timed(case, engine.measure(case, False, effort), "")
    if case.kind in IN_PLACE:
        record |= _timed(case, engine.measure(case, True, effort), "in_")
    return record


def _timed(case: Case, outcome: Outcome | None, prefix: str) -> Record:
    if outcome is None:
        return {}
    record: dict[str, Any] = {f"{prefix}wrong": outcome.wrong} if outcome.wrong is not None else {}
    if outcome.seconds:
        times = summary(outcome.seconds, prefix)
        rate = case.size / (times[f"{prefix}us"] * 1e-6) / 1e9 if times[f"{prefix}us"] else 0.0
        record |= times | {
            f"{prefix}algbw": round(rate, 4),
            f"{prefix}busbw": round(rate * bus_factor(case.kind, case.ranks), 4),
        }
    return record


SUITE = Suite(
    "collectives over NCCL, MPI or the cost model, in nccl-tests' terms: size, time, algbw, busbw, #wrong",
    TITLES, add_options, run,
)  # fmt: skip
