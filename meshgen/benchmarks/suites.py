"""The table of all benchmark suites by name."""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.benchmarks import compile as compile_suite
from meshgen.benchmarks import launch, module, overlap, quality
from meshgen.benchmarks.collectives import suite as collectives
from meshgen.benchmarks.kernels import suite as kernels
from meshgen.benchmarks.suite import Suite

SUITES: Mapping[str, Suite] = {
    "kernels": kernels.SUITE,
    "collectives": collectives.SUITE,
    "overlap": overlap.SUITE,
    "launch": launch.SUITE,
    "module": module.SUITE,
    "compile": compile_suite.SUITE,
    "quality": quality.SUITE,
}
