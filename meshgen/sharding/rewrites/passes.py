"""The rewrites of a program before propagation, by name: those that always pay, and those that make a candidate to compare.

Example: `cse` always runs; `slice-into-dot` makes a candidate, `dot %x, (slice %w : f32[32,96])`, next to the program as written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from meshgen.compilation import Pass
from meshgen.ir.graph import Module
from meshgen.sharding.propagation.solve import solve_as_written
from meshgen.sharding.rewrites.bodies import Rewrite, everywhere
from meshgen.sharding.rewrites.concatenate_sink import concatenate_sink
from meshgen.sharding.rewrites.cse import cse
from meshgen.sharding.rewrites.fft_to_pencils import fft_to_pencils
from meshgen.sharding.rewrites.fold_identities import fold_identities
from meshgen.sharding.rewrites.inner_product_unflatten import inner_product_unflatten
from meshgen.sharding.rewrites.iota_gather_to_batch import iota_gather_to_batch
from meshgen.sharding.rewrites.pad_sum_to_concatenate import pad_sum_to_concatenate
from meshgen.sharding.rewrites.scatter_drop_zero_indices import scatter_drop_zero_indices
from meshgen.sharding.rewrites.slice_into_concatenate import slice_into_concatenate
from meshgen.sharding.rewrites.slice_into_dot import slice_into_dot
from meshgen.sharding.rewrites.slice_into_pad import slice_into_pad
from meshgen.sharding.rewrites.slice_to_halo import slice_to_halo
from meshgen.sharding.rewrites.window_to_reduce import window_to_reduce

_STAGES = ("import",)


def _of_module(rewrite: Rewrite) -> Callable[[Module], Module]:
    """The rewrite of a graph as a pass of modules."""

    @wraps(rewrite)
    def run(module: Module) -> Module:
        graph = rewrite(module.graph)
        return replace(module, graph=graph) if graph else module

    return run


def _of_graphs(rewrite: Rewrite) -> Callable[[Module], Module]:
    """The same, for the bodies of loops and branches too."""
    return wraps(rewrite)(_of_module(everywhere(rewrite)))


def _slice_to_halo(module: Module) -> Module:
    graph = slice_to_halo(module.graph, solve_as_written(module).parts_of)
    return replace(module, graph=graph) if graph else module


SIMPLIFICATIONS = (
    Pass("fold-identities", _of_graphs(fold_identities), _STAGES, "always"),
    Pass("pad-sum-to-concatenate", _of_graphs(pad_sum_to_concatenate), _STAGES, "always"),
    Pass("iota-gather-to-batch", _of_graphs(iota_gather_to_batch), _STAGES, "always"),
    Pass("scatter-drop-zero-indices", _of_graphs(scatter_drop_zero_indices), _STAGES, "always"),
    Pass("window-to-reduce", _of_graphs(window_to_reduce), _STAGES, "always"),
    Pass("cse", cse, _STAGES, "always"),
)
ALTERNATIVES = (
    Pass("inner-product-unflatten", _of_module(inner_product_unflatten), _STAGES, "if cheaper"),
    Pass("concatenate-sink", _of_graphs(concatenate_sink), _STAGES, "if cheaper"),
    Pass("slice-into-pad", _of_graphs(slice_into_pad), _STAGES, "if cheaper"),
    Pass("slice-into-concatenate", _of_graphs(slice_into_concatenate), _STAGES, "if cheaper"),
    Pass("slice-into-dot", _of_graphs(slice_into_dot), _STAGES, "if cheaper"),
)
FFT_TO_PENCILS = Pass("fft-to-pencils", _of_graphs(fft_to_pencils), _STAGES, "if cheaper")
SLICE_TO_HALO = Pass("slice-to-halo", wraps(slice_to_halo)(_slice_to_halo), _STAGES, "if cheaper")
