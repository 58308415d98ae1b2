"""The test files of one shard of the test suite: `make test-shard SHARD=1/4`.

    python -m tests.shards 1/4     prints test files

The split depends only on the names and sizes of the files. Files are assigned in order of decreasing size, each to the
shard with the fewest bytes so far. Each test file is in exactly one shard.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.sources import ROOT, TESTS


def shards(count: int) -> list[list[Path]]:
    """Split all test files into `count` lists of about equal size in bytes, each sorted by path."""
    files = sorted((path for path in TESTS if path.name.startswith("test_")), key=lambda p: (-p.stat().st_size, p))
    shard_files: list[list[Path]] = [[] for _ in range(count)]
    sizes = [0] * count
    for path in files:
        smallest = sizes.index(min(sizes))
        shard_files[smallest].append(path)
        sizes[smallest] += path.stat().st_size
    return [sorted(files_of_shard) for files_of_shard in shard_files]


def main(text: str) -> None:
    match = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", text)
    if not match or int(match[1]) > int(match[2]):
        sys.exit(f"SHARD must be NUMBER/COUNT such as 1/4, got '{text}'")
    shard, count = int(match[1]), int(match[2])
    print(*(path.relative_to(ROOT) for path in shards(count)[shard - 1]), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
