"""Current names of renamed operations, attributes and keywords, so that older texts can still be read."""

from __future__ import annotations

import re

_ALIASES = {"mhlo": "stablehlo"}  # Dialect whose operations are those of another dialect -> that dialect
# Upstream renamed its `mesh` dialect to `shard` and moved `tensor.pack` to linalg.
# The RFC's `mesh` dialect is a different one: its operations are in `mlir/mesh`.
_OLD_NAMES = {
    "mesh.mesh": "shard.grid", "mesh.mesh_shape": "shard.grid_shape", "mesh.cluster_shape": "shard.grid_shape",
    **{f"mesh.{name}": f"shard.{name}" for name in (
        "sharding", "get_sharding", "shard_shape", "process_multi_index", "process_linear_index", "neighbors_linear_indices",
        "all_slice", "broadcast", "gather", "recv", "reduce", "scatter", "send", "shift", "update_halo", "axisarray", "partial",
    )},
    "tensor.pack": "linalg.pack", "tensor.unpack": "linalg.unpack", "sdy.constant": "stablehlo.constant",
    # Operations specific to meshgen used to be in the `shard` dialect.
    **{f"shard.{name}": f"meshgen.{name}" for name in (
        "split", "annotation", "plan", "grouped", "to_partial", "permute", "permute_pairs", "retile", "mask_padding", "fetch_rows",
        "process_index", "axis_size", "transfer_send", "transfer_recv",
    )},
    "shard.partials": "meshgen.partial", "shard.wish": "meshgen.annotation",
}  # fmt: skip
# Attributes of arguments, results and operations that now start with `meshgen.` used to start with this prefix.
OLD_PREFIX = "shard"
OLD_KEYWORDS = {"grid_axes": "mesh_axes"}
OLD_PROPERTIES = {"mesh": "grid", "mesh_axes": "grid_axes"}
_IN_BOTH = ("mesh.all_gather", "mesh.all_reduce", "mesh.all_to_all", "mesh.reduce_scatter", "mesh.shard")
# Matches the text after the name of an operation of upstream's `mesh` dialect, to tell it from the RFC's operation of
# the same name.
_UPSTREAM_FORM = re.compile(
    r"%[\w$.#-]+\s+(?:on\s+@|to\s+%)|\(\s*%[^()]*\)\s*<?\{[^{}]*\bmesh\s*=|\(\s*%[^(),]*,\s*%[^(),]*\)"
)


def base_name(name: str) -> str:
    """Return the current name of an operation or attribute, for example `stablehlo.add` for `mhlo.add`."""
    dialect, dot, mnemonic = name.partition(".")
    return _OLD_NAMES.get(name) or _ALIASES.get(dialect, dialect) + dot + mnemonic


def name_at(name: str, text: str, position: int) -> str:
    """Return the current name of the operation `name`, whose operands start at `position` in `text`.

    Their form tells an operation of upstream's `mesh` dialect from one of the RFC's.
    """
    if name in _IN_BOTH and _UPSTREAM_FORM.match(text, position):
        name = name.replace("mesh", "shard", 1)
    return base_name(name)
