"""`meshgen verify OUT.mgx --key PUBLIC`: check the integrity of a module's file, and that the key has signed it."""

from __future__ import annotations

import argparse

from meshgen.commands.output import Output
from meshgen.runtime.loading import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="OUT.mgx")
    parser.add_argument(
        "--key",
        metavar="PEM",
        required=True,
        help="file with the public key of the private key that must have signed the module",
    )


def run(options: argparse.Namespace, output: Output) -> int:
    module = load(options.module, runs=False, verify_key=options.key)
    output.text(f"{options.module}: {module.name} is intact and signed by {options.key}")
    output.document({"ok": True, "module": options.module, "name": module.name})
    return 0
