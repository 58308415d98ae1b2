"""`python -m bench NAME`: benchmarks for the developers of meshgen.

`models` prints a table of plans of real models (`bench/models/table.py`). `training_loops` compares sessions with the
training loops of frameworks (`bench/training_loops/run.py`). `--check-device` exits with code 5 if there is no GPU. The
benchmarks for users are in `meshgen bench` (`docs/benchmarks.md`).
"""

from __future__ import annotations

import sys

from bench.models.table import main as models
from bench.training_loops.run import main as training_loops
from meshgen.errors import MeshgenError
from meshgen.runtime.cuda.api import real


def main() -> int:
    try:
        match sys.argv[1:]:
            case ["models", *words]:
                return models(words)
            case ["training_loops", *words]:
                return training_loops(words)
            case ["--check-device"]:
                real(1)
                return 0
            case _:
                sys.stderr.write(f"{__doc__}\n")
                return 2
    except MeshgenError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
