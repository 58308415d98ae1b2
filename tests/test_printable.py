"""Numbers and names as they are printed in messages."""

from __future__ import annotations

import pytest

from meshgen.printable import bytes_text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (131_072, "131 kB"), (1e6, "1 MB"), (2.5e9, "2.5 GB"), (1.234e12, "1234 GB"), (1e13, "10000 GB")],
)  # fmt: skip
def test_byte_sizes_have_three_digits_or_all_digits_of_gigabytes(count: float, text: str) -> None:
    assert bytes_text(count) == text
