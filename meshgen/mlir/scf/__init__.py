"""Readers of upstream's dialect scf, and of the assertions of cf."""
