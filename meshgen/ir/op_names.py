"""Groups of ops by name, as far as walks over graphs need them. The records of ops are in `meshgen/ops`."""

from __future__ import annotations

ANNOTATIONS = ("annotate", "sharding_group", "propagation_barrier")
"""Identities that tell propagation the sharding of their operand; `materialize` removes them."""
BRANCHES = ("if", "case")
REPEATED = ("while", "scan")
"""Their last region is a body that runs several times."""
CONTROL = (*REPEATED, *BRANCHES)
"""Control flow. Their regions are parts of the program, and so is the region of `manual`."""
WITH_PROGRAMS = (*CONTROL, "manual")
BETWEEN_MESHES = ("transfer_send", "transfer_recv")
"""Ends of a transfer between two meshes of a program."""
TEXT_NAMES = {"gather_to": "gather", "reduce_to": "reduce", "scatter_from": "scatter"}
"""Collectives with another name in the text of a program."""
