"""Sets of op names, derived from the op records. Passes test membership in these sets instead of naming single ops."""

from __future__ import annotations

from meshgen.ir.op_names import ANNOTATIONS, BETWEEN_MESHES
from meshgen.ops.op import Trait
from meshgen.ops.registry import with_attributes, with_kernel, with_trait

# Sets by the form of the kernel that computes the op (`Kernel.form`).
POINTWISE = with_kernel("expression")
LAYOUT = with_kernel("layout")  # index maps: consumers load the operand at a mapped index, and no result is stored
MADE = with_kernel("source")  # computed from the index alone, without operands
LOOKUPS = with_kernel("lookup")
LOOPS = with_kernel("dot", "ragged", "reduction", "attention")
DOTS = with_kernel("dot")
GEMMS = with_kernel("dot", "ragged")
ATTENTIONS = with_kernel("attention")
# ops with their own kernel, whose epilogue other ops are fused into
PRODUCTS = with_kernel("dot", "ragged", "convolution", "attention")
TYPED = with_trait(Trait.TYPED)
REDUCTIONS = with_kernel("reduction")
NEVER_STORED = LAYOUT | MADE
NESTS = with_kernel("nest")  # ops with their own kernel, without fusion
GENERATED = POINTWISE | LAYOUT | MADE | LOOKUPS | LOOPS | PRODUCTS

ELEMENTWISE = with_trait(Trait.ELEMENTWISE)
ARRANGING = with_trait(Trait.ARRANGES)
REGROUPING = with_trait(Trait.REGROUPS)
JOINING = with_trait(Trait.JOINS)
TAKING = with_trait(Trait.TAKES)
LEAVING = with_trait(Trait.LEAVES)
CONTRACTIONS = with_trait(Trait.CONTRACTS)
EXPENSIVE = with_trait(Trait.EXPENSIVE)

# Sets by behavior across devices.
COLLECTIVES = with_trait(Trait.COLLECTIVE)
LOCAL_OPS = with_trait(Trait.LOCAL)
COMMUNICATING = COLLECTIVES - LOCAL_OPS | {*BETWEEN_MESHES}  # ops that exchange data with other ranks
OF_RANKS = with_trait(Trait.OF_RANK)
RESHARDS = with_trait(Trait.RESHARD)
RETILING = RESHARDS & with_attributes("source", "target")
REDUCING = with_trait(Trait.REDUCES)
REDUCED_EVERYWHERE = REDUCING - with_attributes(
    "root"
)  # every device of a group gets the result, or a tile of the result
MOVES = RESHARDS | {"all_gather", "all_to_all"}  # ops that only move tiles between devices
SHARDING_OPS = REDUCED_EVERYWHERE | MOVES | LOCAL_OPS
AWAITED = with_trait(Trait.AWAITED)
OVERWRITING = with_trait(Trait.OVERWRITES)
# Ops by which the body of a manual computation can distinguish devices.
ON_RANKS = with_trait(Trait.IN_BODIES) | {"process_index"}

# Sets by storage.
VIEWS = with_trait(Trait.VIEW)
UNLAUNCHED = VIEWS | {"join", "constant"}  # ops whose results need no launch
# Ops whose nodes are never merged, even if their attributes and operands are equal.
IMPURE = (COLLECTIVES - LOCAL_OPS) | AWAITED | VIEWS | {"join", "kernel", *ANNOTATIONS}
