"""Upstream's dialect scf, and the assertions of cf."""
