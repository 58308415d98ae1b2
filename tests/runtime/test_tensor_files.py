"""Tests of tensors in the safetensors format, as archive members and as files: they must cover every byte exactly once."""

from __future__ import annotations

import json

import numpy as np
import pytest

from meshgen.runtime.module_file.tensors import decode, encode


def tensors(text: str, content: bytes) -> memoryview:
    header = text.encode()
    return memoryview(len(header).to_bytes(8, "little") + header + content)


def entry(start: int, stop: int) -> str:
    return json.dumps({"dtype": "U8", "shape": [stop - start], "data_offsets": [start, stop]})


def test_tensors_round_trip_including_empty_ones() -> None:
    arrays = {"a": np.arange(6, dtype=np.float32), "b": np.zeros((0, 4), np.float32), "c": np.array(3, np.uint8)}
    decoded = decode(memoryview(encode(arrays)))
    assert all(
        np.array_equal(decoded[name], array) and decoded[name].shape == array.shape for name, array in arrays.items()
    )


@pytest.mark.parametrize(("header", "size", "why"), [
    (f'{{"a": {entry(0, 4)}, "b": {entry(8, 12)}}}', 12, "'b' begins at byte 8 .* before it ends at byte 4"),
    (f'{{"a": {entry(4, 8)}}}', 8, "'a' begins at byte 4"),
    (f'{{"a": {entry(0, 4)}, "b": {entry(2, 6)}}}', 6, "'b' begins at byte 2"),
    (f'{{"a": {entry(0, 4)}}}', 12, "the last tensor ends at byte 4, but there are 12 bytes"),
    (f'{{"a": {entry(0, 4)}, "a": {entry(4, 8)}}}', 8, "the key 'a' stands twice"),
    ('{"a": {"dtype": "U8", "dtype": "I8", "shape": [4], "data_offsets": [0, 4]}}', 4, "the key 'dtype' stands twice"),
    ("{}", 4, "the last tensor ends at byte 0"),
], ids=["hole", "hole first", "overlap", "bytes behind", "name twice", "field twice", "no tensors"])  # fmt: skip
def test_tensor_file_with_gap_or_overlap_is_rejected(header: str, size: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode(tensors(header, bytes(size)))
