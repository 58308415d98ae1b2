"""Error bounds: the largest difference between two conforming executions of a program."""
