"""Importers of StableHLO's custom calls, by target."""
