"""Predicted timeline of all ranks of a module on a machine, including slow links and slow devices."""
