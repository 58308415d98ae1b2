"""`python -m bench.models.texts FOLDER [--small] [NAME ...]`: write the programs of real models as MLIR files, as input
of `python -m bench.passes FOLDER`.

Programs whose packages are missing are skipped and listed on stderr.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.models.catalog import FAMILIES, FAMILY_OF, program
from meshgen import api
from meshgen.mlir.text import print_text


def text_of(name: str, small: bool) -> str:
    """Return the text of a JAX program as JAX lowers it, or of a PyTorch program as meshgen imports it."""
    entered = program(name, small)
    if FAMILIES[FAMILY_OF[name]].framework == "jax":
        return entered.lowered().as_text()
    return print_text(api.lower(entered.lowered(), stage="import", **entered.options))


def main(*arguments: str) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.models.texts", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or FAMILY_OF:
        if missing := FAMILIES[FAMILY_OF[name]].missing:
            sys.stderr.write(f"{name}: {', '.join(missing)} is not installed\n")
            continue
        (options.folder / f"{name}.mlir").write_text(text_of(name, options.small))


if __name__ == "__main__":
    main(*sys.argv[1:])
