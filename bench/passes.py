"""`python -m bench.passes FOLDER... [--random N] [--stage NAME]`: what each pass gains, one JSON document. No GPU is needed.

Every `*.mlir` below the folders, and of `tests/passes/gains`, is planned for `cuda:sm_90`, and once more without each pass that changed it.
`python -m bench.models.texts` writes the programs of real models to such a folder. Of N random programs only those that a pass changes are counted.
`--stage` measures the passes of one stage only. Figures are predictions, so they do not depend on the machine that runs this. `docs/generate.py` makes docs/passes.md of the output.

Names the programs on stderr of which a pass makes the step more than 1 % longer, and exits with 1 if one of them is not listed in `LONGER`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from meshgen import api
from meshgen.codegen.missing_kernels import lacking_faults
from meshgen.compiled.executable import Executable
from meshgen.compiled.on_meshes import PartsExecutable
from meshgen.errors import MeshgenError
from meshgen.passes import BY_STAGE, PASSES
from meshgen.pipeline import Timing, run_stages
from meshgen.testing.random_programs import options_of, program_of

TARGET = "cuda:sm_90"
PROGRAMS = Path(__file__).parents[1] / "tests" / "passes" / "gains"  # one at least for each pass
_SEARCH = "without it each element looks at all updates one after the other, and predictions do not count that latency"
LEAST = 0.99  # of the step without a pass over the one with it: below, the pass makes the program longer
# Passes that make the step of a program longer, by pass and program, and why they apply all the same.
LONGER = {
    ("all-reduce-promote", "i08b_chain_kinds"): "without it NCCL's maximum drops NaN",
    ("concatenate-to-group-call", "mlp_train_dp"): "without it a packed copy takes a third more memory, beside which two dots are fused",
    ("gather-slice-to-all-to-all", "i09_gather_slice_other_dim"): "without it a device sends four times the bytes",
    ("masked-dot-to-ragged", "mixtral_train"): "without it two launches fewer do five times the work, of 64 rows",
    ("scatter-to-rows", "all-reduce-reassociate"): _SEARCH,
    ("scatter-to-rows", "mixtral_forward"): _SEARCH,
    ("scatter-to-rows", "mixtral_train"): _SEARCH,
    ("slice-to-subview", "fetch-drop-local-rows"): "the kernel reads a view and its source, which predictions count as two tensors",
}  # fmt: skip


@dataclass(frozen=True)
class Gain:
    """What a pass gains on a program: figures without the pass over figures with it, 1 where it makes no difference.

    Attributes:
        ring_bytes: sent by a device; None for a program that sends nothing with the pass, and something without it.
        step: the predicted time.
        launches: kernels that are launched in a step; None for a program that launches none with the pass.
        memory: the most bytes that a device holds at once.
        is_enabled: the program has kernels for GPUs with the pass only.
    """

    program: str
    ring_bytes: float | None
    step: float
    launches: float | None
    memory: float | None
    is_enabled: bool

    @property
    def is_longer(self) -> bool:
        """Whether the step is more than 1 % longer with the pass, of a program that has kernels without it too."""
        return self.step < LEAST and not self.is_enabled


def gains(path: Path, name: str, passes: Collection[str]) -> Iterator[tuple[str, Gain]]:
    """For each of the passes that changed the program what it gains. Raises MeshgenError where the program is refused."""
    whole = api.plan(str(path), target=TARGET)
    for each in [record.name for record in whole.passes.values() if record.kept and record.name in passes]:
        yield each, _gain(name, whole, api.plan(str(path), target=TARGET, skip=[each]))


def _gain(name: str, whole: Executable, without: Executable) -> Gain:
    costs = whole.cost, without.cost
    sent, launches = (_ratio(*(getattr(cost, figure) for cost in costs)) for figure in ("ring_bytes", "kernels"))
    step = _ratio(*(cost.step_seconds for cost in costs)) or 1.0
    memory = _ratio(*(executable.memory.peak_bytes for executable in (whole, without)))
    return Gain(name, sent, step, launches, memory, not lacks_kernels(whole) and lacks_kernels(without))


def _ratio(whole: float, without: float) -> float | None:
    return without / whole if whole else None if without else 1.0


def lacks_kernels(executable: Executable) -> bool:
    """Whether no kernel can be generated for an op or type of the program."""
    parts = executable.parts if isinstance(executable, PartsExecutable) else [executable]
    return any(lacking_faults((body, 1) for body in part.plan.kernels.values()) for part in parts)


def measured(folders: list[Path], passes: Collection[str]) -> tuple[int, dict[str, list[Gain]]]:
    """How many programs there are, and the gains by pass."""
    found: dict[str, list[Gain]] = {name: [] for name in passes}
    count = 0
    for folder in folders:
        for path in sorted(folder.rglob("*.mlir")):
            try:
                for each, gain in gains(path, str(path.relative_to(folder.parent)), passes):
                    found[each].append(gain)
            except MeshgenError:  # for no mesh, or not meant to be right
                continue
            count += 1
            sys.stderr.write(f"{path.name}\n")
    return count, found


def random_counts(count: int) -> Counter[str]:
    """Of how many random programs each pass changed something that was kept."""
    found = Counter[str]()
    for seed in range(count):
        timing = Timing()
        run_stages(program_of(seed), options_of(seed), timing, "fuse")
        found.update(record.name for record in timing.passes.values() if record.kept)
    return found


def _record(count: int, found: dict[str, list[Gain]]) -> dict[str, Any]:
    return {
        "programs": count,
        "passes": {name: [asdict(gain) for gain in measured_gains] for name, measured_gains in found.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.passes", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--stage", choices=BY_STAGE)
    options = parser.parse_args()
    passes = [each.name for each in BY_STAGE[options.stage]] if options.stage else list(PASSES)
    given, shown = measured(options.folders, passes), measured([PROGRAMS], passes)
    changed = random_counts(options.random)
    document = {
        "given": {**_record(*given), "random": options.random, "changed": dict(changed)},
        "gains": _record(*shown),
    }
    text = re.sub(r"\n {5,}|\n {4}(?=})", " ", json.dumps(document, indent=1))  # a gain on each line
    sys.stdout.write(f"{text}\n")
    longer = [(name, gain) for _, found in (given, shown) for name in passes for gain in found[name] if gain.is_longer]
    reasons = [LONGER.get((name, Path(gain.program).name.partition(".")[0])) for name, gain in longer]
    for (name, gain), reason in zip(longer, reasons, strict=True):
        sys.stderr.write(
            f"{name} makes the step of {gain.program} {1 / gain.step - 1:.1%} longer: {reason or 'not listed'}\n"
        )
    return None in reasons


if __name__ == "__main__":
    sys.exit(main())
