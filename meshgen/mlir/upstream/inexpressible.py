"""The reasons why a node cannot be expressed in upstream's dialects."""

NO_OPERATION = "LLVM 22 has no such operation"
PARTIAL_SUMS = "LLVM 22 has no sharding of partial sums"
OPEN_SIZES = "an operation of upstream needs static sizes"


class Inexpressible(Exception):
    """A node that upstream's dialects cannot express. The message is the reason."""
