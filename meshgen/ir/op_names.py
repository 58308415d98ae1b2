"""Sets of op names for walks over graphs. The records of the ops are in `meshgen/ops`."""

from __future__ import annotations

ANNOTATIONS = ("annotate", "sharding_group", "propagation_barrier")
"""Identities that give propagation the sharding of their operand; `materialize` removes them."""
BRANCHES = ("if", "case")
REPEATED = ("while", "scan")
"""Ops whose last region is a body that runs several times."""
CONTROL = (*REPEATED, *BRANCHES)
"""Control flow. Its regions are parts of the program, and so is the region of `manual`."""
WITH_PROGRAMS = (*CONTROL, "manual")
BETWEEN_MESHES = ("transfer_send", "transfer_recv")
"""The two ends of a transfer between meshes."""
TEXT_NAMES = {"gather_to": "gather", "reduce_to": "reduce", "scatter_from": "scatter"}
"""Collectives that have another name in the text form of a program."""
