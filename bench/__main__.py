"""`python -m bench [kernels] [collectives] [host] [--check-device]`: one JSON record per line; exit code 5 without a GPU."""

from __future__ import annotations

import argparse
import json
import sys

from bench.device import cuda
from bench.harness import SUITES, measure
from meshgen.errors import MeshgenError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", nargs="*", help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--check-device", action="store_true", help="only say whether there is a GPU")
    options = parser.parse_args()
    try:
        if options.check_device:
            cuda()
            return 0
        for row in measure(options.what or list(SUITES)):
            sys.stdout.write(json.dumps(row) + "\n")
    except MeshgenError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
