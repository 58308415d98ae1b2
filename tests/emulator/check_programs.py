"""All kernels of programs as PTX against their bodies, with all checks: `python -m tests.emulator.check_programs FOLDER`.

Prints each kernel that is wrong or at fault, programs that have kernels which cannot be generated, and the sums.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from meshgen.emulator.faults import DeviceFault
from tests.emulator.programs import CodegenError, cases_of, programs_in, say


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+", help="files, or folders of .shardy.mlir files")
    parser.add_argument("--archs", default="sm_80,sm_90")
    parser.add_argument("--count", type=int, default=1000, help="programs of each folder at most, the shortest first")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    files = [f for each in options.programs for f in (programs_in(each, options.count) if each.is_dir() else [each])]
    kernels, wrong, refused, worst, seconds = 0, 0, 0, 0.0, 0.0
    for file in files:
        try:
            for case in cases_of(file, options.archs.split(","), options.seed):
                kernels += 1
                begin = time.perf_counter()
                try:
                    excess = case.excess(case.run())
                    said = "" if excess <= 1 else f"wrong: {excess:.3g} times what is allowed"
                except DeviceFault as fault:
                    said, excess = str(fault), 0.0
                seconds += time.perf_counter() - begin
                worst = max(worst, excess)
                wrong += bool(said)
                if said:
                    say(f"{file.name} {case.name} {case.arch}: {said}")
        except CodegenError as error:
            refused += 1
            say(f"{file.name}: no code: {error.diagnostics[0].message[:120]}")
    say(f"{len(files)} programs, {refused} without code; {kernels} kernels, {wrong} wrong, largest error {worst:.2g} of what "
          f"is allowed, {seconds:.1f} s emulated")  # fmt: skip
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
