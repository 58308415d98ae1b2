"""Numeric option types for `argparse`."""

from __future__ import annotations

import argparse
import math

from meshgen.names import whole_number


def natural(text: str) -> int:
    """Parse the value of an option as a non-negative integer."""
    value = whole_number(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"expected a non-negative integer, got '{text:.40}'")
    return value


def not_negative(text: str) -> float:
    """Parse the value of an option as a non-negative number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a non-negative number, such as 0.05, got '{text:.40}'")
    return value


def positive(text: str) -> int:
    """Parse the value of an option as a positive integer."""
    value = whole_number(text)
    if not value:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got '{text:.40}'")
    return value
