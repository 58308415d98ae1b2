"""Entry point of `python -m meshgen`."""

import sys

from meshgen.cli import main

if __name__ == "__main__":
    sys.exit(main())
