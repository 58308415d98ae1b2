"""The commands of `meshgen`, one per file.

Each file defines `add_arguments(parser)` and `run(options, output)`, which returns the exit code.
"""
