"""`meshgen verify OUT.mgx --key PUBLIC`: check the entire file of a module, and its signature."""

from __future__ import annotations

import argparse

from meshgen.commands.output import Output
from meshgen.runtime.loading import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="OUT.mgx")
    parser.add_argument("--key", metavar="PEM", required=True, help="the public key that must have signed it")


def run(options: argparse.Namespace, output: Output) -> int:
    module = load(options.module, runs=False, verify_key=options.key)
    output.text(f"{options.module}: {module.name} is intact and signed by {options.key}")
    output.document({"ok": True, "module": options.module, "name": module.name})
    return 0
