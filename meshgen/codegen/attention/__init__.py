"""Attention is recognized in a program as it was entered, before anything decides how it is split."""
