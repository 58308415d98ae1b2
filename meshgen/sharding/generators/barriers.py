"""Values beyond which annotations do not reach: Shardy's barriers."""

from __future__ import annotations

from meshgen.sharding.generators.writer import Writer


def barrier(writer: Writer) -> None:
    """Annotations reach a value from behind it only, from before it only, or not at all."""
    if value := writer.pick(empty=True):
        direction = writer.one_of(("NONE", "FORWARD", "BACKWARD"))
        writer.add("propagation_barrier", [value], None, {"direction": direction})


OPS = (barrier,)
