"""Targets of StableHLO's custom calls."""
