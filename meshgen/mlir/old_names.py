"""Names that operations, attributes and keywords had in older texts, and those that they have now."""

from __future__ import annotations

import re

_ALIASES = {"mhlo": "stablehlo"}  # dialects whose operations and attributes are those of another
# What `shard` and linalg have was called `mesh` and tensor before; the RFC's `mesh` has operations of its own.
_OLD_NAMES = {
    "mesh.mesh": "shard.grid", "mesh.mesh_shape": "shard.grid_shape", "mesh.cluster_shape": "shard.grid_shape",
    **{f"mesh.{name}": f"shard.{name}" for name in (
        "sharding", "get_sharding", "shard_shape", "process_multi_index", "process_linear_index", "neighbors_linear_indices",
        "all_slice", "broadcast", "gather", "recv", "reduce", "scatter", "send", "shift", "update_halo", "axisarray", "partial",
    )},
    "tensor.pack": "linalg.pack", "tensor.unpack": "linalg.unpack", "sdy.constant": "stablehlo.constant",
    # What only meshgen has was once in upstream's dialect.
    **{f"shard.{name}": f"meshgen.{name}" for name in (
        "split", "annotation", "plan", "grouped", "to_partial", "permute", "permute_pairs", "retile", "mask_padding", "fetch_rows",
        "process_index", "axis_size", "transfer_send", "transfer_recv",
    )},
    "shard.partials": "meshgen.partial", "shard.wish": "meshgen.annotation",
}  # fmt: skip
OLD_PREFIX = "shard"  # of the attributes of arguments, results and operations that are now `meshgen.`
OLD_KEYWORDS = {"grid_axes": "mesh_axes"}
OLD_PROPERTIES = {"mesh": "grid", "mesh_axes": "grid_axes"}
_IN_BOTH = ("mesh.all_gather", "mesh.all_reduce", "mesh.all_to_all", "mesh.reduce_scatter", "mesh.shard")
_ON_GRID = re.compile(  # how such an operation goes on where it is not the RFC's, in pretty and in generic form
    r"%[\w$.#-]+\s+(?:on\s+@|to\s+%)|\(\s*%[^()]*\)\s*<?\{[^{}]*\bmesh\s*=|\(\s*%[^(),]*,\s*%[^(),]*\)"
)


def base_name(name: str) -> str:
    """The name of an operation or attribute in the dialect that defines it: `mhlo.add` is `stablehlo.add`."""
    dialect, dot, mnemonic = name.partition(".")
    return _OLD_NAMES.get(name) or _ALIASES.get(dialect, dialect) + dot + mnemonic


def name_at(name: str, text: str, position: int) -> str:
    """The name of an operation whose operands are at `position`: the RFC's `mesh` and the old `shard` share some names."""
    if name in _IN_BOTH and _ON_GRID.match(text, position):
        name = name.replace("mesh", "shard", 1)
    return base_name(name)
