"""Numeric option types for `argparse`."""

from __future__ import annotations

import argparse
import math

from meshgen.names import whole_number


def natural(text: str) -> int:
    """Parse a non-negative integer option."""
    value = whole_number(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"expected a non-negative integer, got '{text:.40}'")
    return value


def not_negative(text: str) -> float:
    """Parse a non-negative number option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a non-negative number, such as 0.05, got '{text:.40}'")
    return value


def positive(text: str) -> int:
    """Parse a positive integer option."""
    value = whole_number(text)
    if not value:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got '{text:.40}'")
    return value
