"""Compare random lowered collectives of all kinds with their reference semantics, bit for bit.

python -m tests.ccl.check_lowered --count 100000 --seed 1 [--op all_to_all]
"""

from __future__ import annotations

import argparse
import collections
import sys

import numpy as np

from tests.ccl.lowered import faults
from tests.ccl.random_collectives import OPS, random_case


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--op", choices=OPS)
    args = parser.parse_args()
    wrong, counts = 0, collections.Counter[str]()
    for number in range(args.count):
        rng = np.random.default_rng((args.seed, number))
        case = random_case(rng, args.op)
        counts[case.node.op] += 1
        if messages := faults(case, rng):
            wrong += 1
            sys.stdout.write(f"seed {args.seed}, number {number}: {case}\n    {messages[0][:400]}\n")
    sys.stdout.write(f"{args.count} collectives, {wrong} wrong: {dict(counts)}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
