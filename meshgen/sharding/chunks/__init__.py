"""Chains of operations around collectives, run in chunks so that one chunk communicates while another computes."""
