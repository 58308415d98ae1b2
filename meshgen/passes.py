"""All passes by name, in pipeline order: `meshgen opt --list-passes`. What each gains: docs/passes.md."""

from __future__ import annotations

from meshgen.pass_manager import named
from meshgen.sharding import optimize, overlap
from meshgen.sharding.rewrites import passes as rewrites

PASSES = named(
    *rewrites.SIMPLIFICATIONS,
    *rewrites.ALTERNATIVES,
    rewrites.SLICE_TO_HALO,
    *optimize.PASSES,
    *optimize.LOCAL_PASSES,
    *overlap.PASSES,
)
