"""Upstream's dialect tosa."""
