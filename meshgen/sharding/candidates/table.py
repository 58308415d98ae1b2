"""The generators of candidates in the order in which they run; each starts from the choice of the previous ones."""

from __future__ import annotations

from meshgen.sharding.candidates import fft_pencils as pencils
from meshgen.sharding.candidates.cut_axes import cut_axes
from meshgen.sharding.candidates.expanded import expanded
from meshgen.sharding.candidates.fewer_collectives import choose_shorter, fewer_collectives
from meshgen.sharding.candidates.group_sharded_matmuls import own_rows
from meshgen.sharding.candidates.other_starts import other_starts
from meshgen.sharding.candidates.rewritten import rewritten
from meshgen.sharding.candidates.search import Generator, Search
from meshgen.sharding.candidates.shared_work import choose_shared, shared_work
from meshgen.sharding.candidates.slice_frames import framed

# Maximal number of runs of the generator of frames (chosen: values that become reachable only in frames need a second
# run).
_FRAMES = 2

GENERATORS = (
    Generator("rewrites", rewritten, Search.cheapest),
    Generator("expanded attention", expanded, Search.cheapest),
    Generator("frames", framed, Search.cheapest, rounds=_FRAMES),
    Generator("cut axes", cut_axes, Search.cheapest_planned),
    Generator("other starts", other_starts, Search.cheapest_planned),
    Generator("shared work", shared_work, choose_shared),
    Generator("own rows", own_rows, Search.cheapest_planned),
    Generator("fewer collectives", fewer_collectives, choose_shorter),
    Generator(pencils.NAME, pencils.pencils, pencils.choose_pencils),
)
