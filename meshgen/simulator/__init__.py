"""Predicted timeline of every rank of a module on a machine: hosts, links, slow devices."""
