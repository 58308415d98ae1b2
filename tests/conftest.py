"""What all tests share: how JAX compiles what results are compared with."""

from __future__ import annotations

import os

# Most programs of JAX run once: to optimise them takes longer than to run them.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
