"""`python -m bench [collectives] [host] [--check-device]`: one JSON record per line; exit code 5 without a GPU.

`python -m bench models` is a table of plans of real models (`bench/models/table.py`), `python -m bench kernels` one of generated
kernels (`bench/kernels/table.py`), measured where there is a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys

from bench.device import cuda
from bench.harness import SUITES, measure
from bench.kernels.table import main as kernels
from bench.models.table import main as models
from meshgen.errors import MeshgenError


def main() -> int:
    try:
        tables = {"models": models, "kernels": kernels}
        return tables[sys.argv[1]](sys.argv[2:]) if sys.argv[1:2] and sys.argv[1] in tables else _on_a_gpu()
    except MeshgenError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _on_a_gpu() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", nargs="*", help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--check-device", action="store_true", help="only say whether there is a GPU")
    options = parser.parse_args()
    if options.check_device:
        cuda()
        return 0
    for row in measure(options.what or list(SUITES)):
        sys.stdout.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
