"""Options that are numbers, as `type` of `argparse`."""

from __future__ import annotations

import argparse
import math

from meshgen.names import whole_number


def natural(text: str) -> int:
    """A non-negative integer option."""
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"expected a non-negative integer, got '{text:.40}'")
    return number


def not_negative(text: str) -> float:
    """A non-negative number option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a non-negative number, such as 0.05, got '{text:.40}'")
    return value


def positive(text: str) -> int:
    """A positive integer option."""
    number = whole_number(text)
    if not number:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got '{text:.40}'")
    return number
