"""Collectives that are parsed from XLA's text: their kinds, bytes, replica groups in every notation, and the trip
counts of loops around them.
"""

from __future__ import annotations

import pytest

from meshgen.benchmarks.xla import collectives, figures
from meshgen.mesh import Axis, Mesh

MESH = Mesh((Axis("dp", 2), Axis("tp", 4)))
TEXT = """HloModule jit_f, num_partitions=8

%body.1 (p: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %all-gather.3 = f32[4,8]{1,0} all-gather(%x), channel_id=1, replica_groups=[2,4]<=[8], dimensions={0}
  ROOT %t = (s32[], f32[4,8]) tuple(%i, %all-gather.3)
}

ENTRY %main (a: f32[4,8]) -> f32[4,8] {
  %all-reduce = (bf16[16]{0}, f32[2,2]{1,0}) all-reduce(%a, %b), replica_groups={{0,4},{1,5},{2,6},{3,7}}, to_apply=%add
  %all-gather-start.1 = (f32[8]{0}, f32[32]{0}) all-gather-start(%a), replica_groups={{0,1,2,3},{4,5,6,7}}
  %all-gather-done.1 = f32[32]{0} all-gather-done(%all-gather-start.1)
  %reduce-scatter.2 = pred[8]{0} reduce-scatter(%a), replica_groups={}, to_apply=%or
  %collective-permute.5 = f32[10]{0} collective-permute(%a), source_target_pairs={{0,1},{1,0}}
  %w = (s32[], f32[4,8]) while(%init), condition=%cond.1, body=%body.1, backend_config={"known_trip_count":{"n":"6"}}
}
"""


def test_collectives_are_parsed_with_bytes_and_trip_counts() -> None:
    parsed = [
        (collective.op, collective.result_bytes, collective.times, collective.ring_bytes(8))
        for collective in collectives(TEXT)
    ]
    assert parsed == [
        ("all_gather", 128, 6, 96),
        ("all_reduce", 48, 1, 48),
        ("all_gather", 128, 1, 96),
        ("reduce_scatter", 8, 1, 56),
        ("shift", 40, 1, 40),
    ]


def test_figures_weight_collectives_by_trip_count() -> None:
    record = figures(TEXT, MESH)
    assert record["collectives"] == {"all_gather": 7, "all_reduce": 1, "reduce_scatter": 1, "shift": 1}
    assert record["ring_bytes"] == 7 * 96 + 48 + 56 + 40 and record["communication_seconds"] > 0


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("replica_groups={{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("replica_groups=[2,2]<=[4]", ((0, 1), (2, 3))),
        ("replica_groups=[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("replica_groups=mesh['a'=2,'b'=2] {'a'}", ((0, 2), (1, 3))),
        ("replica_groups=mesh['a'=2,'b'=1,'c'=2], device_ids=([2,2]T(1,0)) {'a'}", ((0, 1), (2, 3))),
        ("replica_groups=mesh['a'=2,'b'=2] {'a','b'}", ((0, 1, 2, 3),)),
        ("replica_groups={}", ()),
    ],
)
def test_replica_groups_are_parsed_in_every_spelling(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    (collective,) = collectives(f"%r = f32[4]{{0}} all-reduce(%a), {text}, to_apply=%add")
    assert collective.groups == groups


def test_unknown_replica_groups_are_refused() -> None:
    with pytest.raises(OSError, match="unknown groups"):
        collectives("%r = f32[4]{0} all-reduce(%a), replica_groups=new, to_apply=%add")
