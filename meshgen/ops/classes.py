"""Classes of ops by name, read off their records: what a pass asks of an op that is not about that very op."""

from __future__ import annotations

from meshgen.ir.op_names import ANNOTATIONS, BETWEEN_MESHES
from meshgen.ops.op import Trait
from meshgen.ops.registry import with_attributes, with_kernel, with_trait

# How generated kernels make them.
POINTWISE = with_kernel("expression")
LAYOUT = with_kernel("layout")  # index maps: not stored for their own sake, but read through by whoever uses the result
MADE = with_kernel("source")  # from nothing
LOOKUPS = with_kernel("lookup")
LOOPS = with_kernel("dot", "ragged", "reduction", "attention")
DOTS = with_kernel("dot")
MATRIX_PRODUCTS = with_kernel("dot", "ragged")
ATTENTIONS = with_kernel("attention")
PRODUCTS = with_kernel("dot", "ragged", "convolution", "attention")  # kernels of their own, with an epilogue
TYPED = with_trait(Trait.TYPED)
REDUCTIONS = with_kernel("reduction")
UNSTORED = LAYOUT | MADE
NESTS = with_kernel("nest")  # kernels of their own
GENERATED = POINTWISE | LAYOUT | MADE | LOOKUPS | LOOPS | PRODUCTS

ELEMENTWISE = with_trait(Trait.ELEMENTWISE)
ARRANGING = with_trait(Trait.ARRANGES)
REGROUPING = with_trait(Trait.REGROUPS)
JOINING = with_trait(Trait.JOINS)
TAKING = with_trait(Trait.TAKES)
LEAVING = with_trait(Trait.LEAVES)
CONTRACTIONS = with_trait(Trait.CONTRACTS)
EXPENSIVE = with_trait(Trait.EXPENSIVE)

# Over devices.
COLLECTIVES = with_trait(Trait.COLLECTIVE)
LOCAL_OPS = with_trait(Trait.LOCAL)
COMMUNICATING = COLLECTIVES - LOCAL_OPS | {*BETWEEN_MESHES}  # they need other ranks
OF_RANKS = with_trait(Trait.OF_RANK)
RESHARDS = with_trait(Trait.RESHARD)
RETILING = RESHARDS & with_attributes("source", "target")
REDUCING = with_trait(Trait.REDUCES)
REDUCED_ALIKE = REDUCING - with_attributes("root")  # every device has the result, or its tile of it
MOVES = RESHARDS | {"all_gather", "all_to_all"}  # of tiles: nothing is computed
SHARDING_OPS = REDUCED_ALIKE | MOVES | LOCAL_OPS
AWAITED = with_trait(Trait.AWAITED)
OVERWRITING = with_trait(Trait.OVERWRITES)
ON_RANKS = with_trait(Trait.IN_BODIES) | {"process_index"}  # what a user may tell devices apart by

# In memory.
VIEWS = with_trait(Trait.VIEW)
UNLAUNCHED = VIEWS | {"join", "constant"}  # their results exist without a launch
# What is not the same as another node of equal attributes and operands.
IMPURE = (COLLECTIVES - LOCAL_OPS) | AWAITED | VIEWS | {"join", "kernel", *ANNOTATIONS}
