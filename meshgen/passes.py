"""The table of all passes, in pipeline order, as `meshgen opt --list-passes` prints them. `docs/passes.md` shows the
gain of each pass.
"""

from __future__ import annotations

from meshgen.codegen import fuse
from meshgen.codegen.horizontal_fusion import horizontal_fusion
from meshgen.codegen.passes.loop_unroll import loop_unroll
from meshgen.codegen.product_fusion import product_fusion
from meshgen.compilation import Pass
from meshgen.sharding import optimize, overlap
from meshgen.sharding.rewrites import passes as rewrites
from meshgen.sharding.rewrites.expand_attention import expand_attention
from meshgen.sharding.rewrites.fft_to_pencils import fft_to_pencils
from meshgen.sharding.rewrites.slice_to_halo import slice_to_halo

BY_STAGE: dict[str, tuple[Pass, ...]] = {  # stage that runs the passes -> its passes
    "propagate": (*rewrites.SIMPLIFICATIONS, *rewrites.ALTERNATIVES, expand_attention, slice_to_halo, fft_to_pencils),
    "optimize": optimize.PASSES,
    "partition": (*optimize.LOCAL_PASSES, *overlap.PASSES),
    "fuse": (loop_unroll, *fuse.PASSES, product_fusion, horizontal_fusion),
}
PASSES = {stage_pass.name: stage_pass for passes in BY_STAGE.values() for stage_pass in passes}
