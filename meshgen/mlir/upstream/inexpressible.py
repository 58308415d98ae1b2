"""Error for nodes that upstream's dialects cannot express, and frequent reasons."""

NO_OPERATION = "LLVM 22 has no such operation"
PARTIAL_SUMS = "LLVM 22 has no sharding of partial sums"
OPEN_SIZES = "an operation of upstream needs static sizes"


class Inexpressible(Exception):
    """Exception for a node that upstream's dialects cannot express. Its message is the reason."""
