"""`python -m meshgen`, and the script `meshgen`."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn

from meshgen.cli import main


def command() -> NoReturn:
    """Run the command of the command line as this process.

    The process then ends at once, after what is registered for its end: taking apart hundreds of thousands of objects takes
    longer than some passes. Not where something waits for that: other threads, or a profiler or tracer.
    """
    code = main()
    is_watched = sys.getprofile() is not None or sys.gettrace() is not None
    if is_watched or threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # as the interpreter does at its end
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads any more, or they are closed
        sys.exit(code)
    os._exit(code)


if __name__ == "__main__":
    if "-m" in sys.orig_argv and sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] == ["meshgen"]:
        command()
    sys.exit(main())  # run as a part of another process
