"""`meshgen bench collectives`: the measurements of nccl-tests on every engine."""
