"""`python -m bench.passes FOLDER... [--random N] [--stage NAME]`: what each pass gains, one JSON document. No GPU is needed.

Every `*.mlir` below the folders is planned for `cuda:sm_90`, and once more without each pass that changed it. `python -m bench.models.texts` writes
the programs of real models to such a folder. Of N random programs only those that a pass changes are counted. `--stage` measures the passes of one
stage only. Figures are predictions, so they do not depend on the machine that runs this. `docs/generate.py` makes docs/passes.md of the output.

Exits with 1, and names the programs on stderr, if a pass makes one of them more than 1 % longer.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from meshgen import api
from meshgen.codegen.missing_kernels import lacking_faults
from meshgen.compiled.executable import Executable
from meshgen.compiled.on_meshes import PartsExecutable
from meshgen.errors import MeshgenError
from meshgen.passes import BY_STAGE, PASSES
from meshgen.pipeline import Timing, run_stages
from meshgen.testing.random_programs import options_of, program_of

TARGET = "cuda:sm_90"
LONGER = 0.99  # of the step without a pass over the one with it: below, the pass costs more than it gains


@dataclass(frozen=True)
class Gain:
    """What a pass gains on a program: figures without the pass over figures with it, 1 where it makes no difference.

    Attributes:
        ring_bytes: sent by a device; None for a program that sends nothing with the pass, and something without it.
        step: the predicted time.
        launches: kernels that are launched in a step; None for a program that launches none with the pass.
        is_enabled: the program has kernels for GPUs with the pass only.
    """

    program: str
    ring_bytes: float | None
    step: float
    launches: float | None
    is_enabled: bool

    @property
    def is_longer(self) -> bool:
        """Whether the step is more than 1 % longer with the pass, of a program that has kernels without it too."""
        return self.step < LONGER and not self.is_enabled


def gains(path: Path, name: str, passes: Collection[str]) -> Iterator[tuple[str, Gain]]:
    """For each of the passes that changed the program what it gains. Raises MeshgenError where the program is refused."""
    whole = api.plan(str(path), target=TARGET)
    for each in [record.name for record in whole.passes.values() if record.kept and record.name in passes]:
        yield each, _gain(name, whole, api.plan(str(path), target=TARGET, skip=[each]))


def _gain(name: str, whole: Executable, without: Executable) -> Gain:
    costs = whole.cost, without.cost
    sent, launches = (_ratio(*(getattr(cost, figure) for cost in costs)) for figure in ("ring_bytes", "kernels"))
    step = _ratio(*(cost.step_seconds for cost in costs)) or 1.0
    return Gain(name, sent, step, launches, not lacks_kernels(whole) and lacks_kernels(without))


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.passes", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--stage", choices=BY_STAGE)
    options = parser.parse_args()
    passes = [each.name for each in BY_STAGE[options.stage]] if options.stage else list(PASSES)
    count, found = measured(options.folders, passes)
    changed = random_counts(options.random)
    rows = {
        name: {"gains": [asdict(each) for each in each_gains], "random": changed[name]}
        for name, each_gains in found.items()
    }
    json.dump({"programs": count, "random": options.random, "passes": rows}, sys.stdout, indent=1)
    longer = [(name, gain) for name, each_gains in found.items() for gain in each_gains if gain.is_longer]
    for name, gain in longer:
        sys.stderr.write(f"{name} makes the step of {gain.program} {1 / gain.step - 1:.1%} longer\n")
    return bool(longer)


if __name__ == "__main__":
    sys.exit(main())
