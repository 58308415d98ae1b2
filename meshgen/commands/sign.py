"""`meshgen sign OUT.mgx --key KEY`: sign a module with an ed25519 key, and store the signature in its file."""

from __future__ import annotations

import argparse

from meshgen.commands.output import Output
from meshgen.runtime.signatures import sign


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="OUT.mgx")
    parser.add_argument(
        "--key",
        metavar="PEM",
        required=True,
        help="file with the private key, as made by openssl genpkey -algorithm ed25519",
    )
    parser.add_argument("-o", "--output", metavar="FILE.mgx", help="output path (default: the module itself)")


def run(options: argparse.Namespace, output: Output) -> int:
    path = options.output or options.module
    public = sign(options.module, path, options.key)
    output.text(f"{path}: signed by the key {public}")
    output.document({"output": path, "key": public})
    return 0
