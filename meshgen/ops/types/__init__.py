"""Type inference of ops: the result types, and the faults of malformed nodes."""
