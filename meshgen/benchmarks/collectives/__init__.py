"""`meshgen bench collectives`: nccl-tests' measurements on every engine."""
