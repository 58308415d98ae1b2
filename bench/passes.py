"""`python -m bench.passes FOLDER... [--random N] [--stage NAME]`: what each pass gains, one JSON document. No GPU is needed.

Every `*.mlir` below the folders is planned for `cuda:sm_90`, and once more without each pass that changed it: what a device then sends,
and how long the predicted step is, over what it is with all passes. Of N random programs it is only counted which passes change them.
`--stage` measures the passes of one stage only. Figures are predictions, so they do not depend on the machine that runs this. `docs/generate.py` makes docs/passes.md of the output.
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
from meshgen.compiled.executable import Executable
from meshgen.errors import MeshgenError
from meshgen.passes import BY_STAGE, PASSES
from meshgen.pipeline import Timing, run_stages
from meshgen.testing.random_programs import options_of, program_of

TARGET = "cuda:sm_90"


@dataclass(frozen=True)
class Gain:
    """What a pass is worth to a program: figures without it over those with it. 1 where it makes no difference.

    `ring_bytes` is None for a program that sends nothing with the pass, and something without it.
    """

    program: str
    ring_bytes: float | None
    step: float


def gains(path: Path, name: str, passes: Collection[str]) -> Iterator[tuple[str, Gain]]:
    """For each of the passes that changed the program what it gains. Raises MeshgenError where the program is refused."""
    whole = api.plan(str(path), target=TARGET)
    for each in [record.name for record in whole.passes.values() if record.kept and record.name in passes]:
        yield each, _gain(name, whole, api.plan(str(path), target=TARGET, skip=[each]))


def _gain(name: str, whole: Executable, without: Executable) -> Gain:
    (sent, step), (sent_without, step_without) = ((e.cost.ring_bytes, e.cost.step_seconds) for e in (whole, without))
    ratio = sent_without / sent if sent else None if sent_without else 1.0
    return Gain(name, ratio, step_without / step if step else 1.0)


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
    return 0


if __name__ == "__main__":
    sys.exit(main())
