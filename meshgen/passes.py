"""All passes by name, in pipeline order: `meshgen opt --list-passes`. What each gains: docs/passes.md."""

from __future__ import annotations

from meshgen.codegen import fuse, planner
from meshgen.compilation import Pass, named
from meshgen.sharding import optimize, overlap
from meshgen.sharding.rewrites import passes as rewrites

BY_STAGE: dict[str, tuple[Pass, ...]] = {  # that runs them
    "propagate": (*rewrites.SIMPLIFICATIONS, *rewrites.ALTERNATIVES, rewrites.SLICE_TO_HALO, rewrites.FFT_TO_PENCILS),
    "optimize": optimize.PASSES,
    "partition": (*optimize.LOCAL_PASSES, *overlap.PASSES),
    "fuse": (fuse.LOOP_UNROLL, *fuse.PASSES, planner.PRODUCT_FUSION, planner.HORIZONTAL_FUSION),
}
PASSES = named(*(each for passes in BY_STAGE.values() for each in passes))
