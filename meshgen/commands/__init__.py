"""The commands of `meshgen`, one file each: `add_arguments(parser)` and `run(options, output) -> exit code`."""
