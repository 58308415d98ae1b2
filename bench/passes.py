"""`python -m bench.passes FOLDER... [--random N] [--stage NAME]`: the gain of each pass, as one JSON document. No GPU
is needed.

Every `*.mlir` below the folders and in `tests/passes/gains` is planned for `cuda:sm_90`, and again without each pass
that changed it. `python -m bench.models.texts` writes the programs of real models to such a folder. Of N random
programs, only the number that each pass changes is counted. `--stage` measures the passes of one stage. Figures are
predictions, so they do not depend on the machine that runs this. `docs/generate.py` writes docs/passes.md from the
output.

Names on stderr each program whose step a pass makes more than 1 % longer, and exits with 1 if such a program is not in
`LONGER`.
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
from meshgen.codegen.missing_kernels import missing_kernel_faults
from meshgen.compiled.executable import Executable
from meshgen.compiled.multi_mesh import PartsExecutable
from meshgen.errors import MeshgenError
from meshgen.passes import BY_STAGE, PASSES
from meshgen.pipeline import Timing, run_stages
from meshgen.testing.random_programs import options_of, program_of

TARGET = "cuda:sm_90"
PROGRAMS = Path(__file__).parents[1] / "tests" / "passes" / "gains"  # a folder with at least one program for each pass
_SEARCH = "without it each element looks at all updates one after the other, and predictions do not count that latency"
LEAST = 0.99  # least ratio of the step without a pass to the step with it. Below this, the pass makes the step longer
# Passes that make the step of a program longer, by pass and program. The text is the reason for the pass.
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
    """The gain of a pass on a program. Each figure is its value without the pass divided by its value with the pass; 1
    means no difference.

    Attributes:
        ring_bytes: ratio of bytes that a device sends; None if the pass removes all communication.
        step: ratio of predicted step times.
        launches: ratio of kernel launches per step; None if the pass removes all launches.
        memory: ratio of peak device memory.
        is_enabled: whether all ops of the program have GPU kernels only with the pass.
    """

    program: str
    ring_bytes: float | None
    step: float
    launches: float | None
    memory: float | None
    is_enabled: bool

    @property
    def is_longer(self) -> bool:
        """Whether the pass makes the step more than 1 % longer. Programs that have kernels only with the pass are
        excluded.
        """
        return self.step < LEAST and not self.is_enabled


def gains(path: Path, name: str, passes: Collection[str]) -> Iterator[tuple[str, Gain]]:
    """For each of `passes` that changed the program, yield its name and its gain. Raises MeshgenError if the program is
    refused.
    """
    with_all = api.plan(str(path), target=TARGET)
    for pass_name in [record.name for record in with_all.passes.values() if record.kept and record.name in passes]:
        yield pass_name, _gain(name, with_all, api.plan(str(path), target=TARGET, skip=[pass_name]))


def _gain(name: str, with_all: Executable, without: Executable) -> Gain:
    costs = with_all.cost, without.cost
    sent, launches = (_ratio(*(getattr(cost, figure) for cost in costs)) for figure in ("ring_bytes", "kernels"))
    step = _ratio(*(cost.step_seconds for cost in costs)) or 1.0
    memory = _ratio(*(executable.memory.peak_bytes for executable in (with_all, without)))
    return Gain(name, sent, step, launches, memory, not lacks_kernels(with_all) and lacks_kernels(without))


def _ratio(with_pass: float, without: float) -> float | None:
    return without / with_pass if with_pass else None if without else 1.0


def lacks_kernels(executable: Executable) -> bool:
    """Whether no kernel can be generated for an op or dtype of the program."""
    executables = executable.parts if isinstance(executable, PartsExecutable) else [executable]
    return any(
        missing_kernel_faults((body, 1) for body in executable_of_mesh.plan.kernels.values())
        for executable_of_mesh in executables
    )


def measured(folders: list[Path], passes: Collection[str]) -> tuple[int, dict[str, list[Gain]]]:
    """Return the number of planned programs, and the gains of each pass."""
    gains_by_pass: dict[str, list[Gain]] = {name: [] for name in passes}
    count = 0
    for folder in folders:
        for path in sorted(folder.rglob("*.mlir")):
            try:
                for pass_name, gain in gains(path, str(path.relative_to(folder.parent)), passes):
                    gains_by_pass[pass_name].append(gain)
            except MeshgenError:  # programs without a mesh, and programs that are invalid on purpose
                continue
            count += 1
            sys.stderr.write(f"{path.name}\n")
    return count, gains_by_pass


def random_counts(count: int) -> Counter[str]:
    """Return, for each pass, the number of random programs in which a change by the pass was kept."""
    counts = Counter[str]()
    for seed in range(count):
        timing = Timing()
        run_stages(program_of(seed), options_of(seed), timing, "fuse")
        counts.update(record.name for record in timing.passes.values() if record.kept)
    return counts


def _record(count: int, gains_by_pass: dict[str, list[Gain]]) -> dict[str, Any]:
    return {
        "programs": count,
        "passes": {name: [asdict(gain) for gain in measured_gains] for name, measured_gains in gains_by_pass.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.passes", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--stage", choices=BY_STAGE)
    options = parser.parse_args()
    passes = [pass_.name for pass_ in BY_STAGE[options.stage]] if options.stage else list(PASSES)
    folder_gains, test_program_gains = measured(options.folders, passes), measured([PROGRAMS], passes)
    changed = random_counts(options.random)
    document = {
        "given": {**_record(*folder_gains), "random": options.random, "changed": dict(changed)},
        "gains": _record(*test_program_gains),
    }
    text = re.sub(r"\n {5,}|\n {4}(?=})", " ", json.dumps(document, indent=1))  # one gain per line
    sys.stdout.write(f"{text}\n")
    longer = [
        (name, gain)
        for _, gains_by_pass in (folder_gains, test_program_gains)
        for name in passes
        for gain in gains_by_pass[name]
        if gain.is_longer
    ]
    reasons = [LONGER.get((name, Path(gain.program).name.partition(".")[0])) for name, gain in longer]
    for (name, gain), reason in zip(longer, reasons, strict=True):
        sys.stderr.write(
            f"{name} makes the step of {gain.program} {1 / gain.step - 1:.1%} longer: {reason or 'not listed'}\n"
        )
    return None in reasons


if __name__ == "__main__":
    sys.exit(main())
