"""The cost model, which all passes that decide between plans read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from meshgen.cost_model.codegen import Chunks, Fusion, Scheduling
from meshgen.cost_model.kernels import Kernels
from meshgen.cost_model.links import Links
from meshgen.cost_model.propagation import Propagation
from meshgen.cost_model.rewriting import Messages, Resharding, Rewriting
from meshgen.cost_model.search import Search


@dataclass(frozen=True, eq=False)
class CostModel:
    """The groups of the cost model in the order of the stages.

    `entries` (`meshgen/cost_model/fields.py`) lists all fields.
    """

    links: Links = field(default_factory=Links)
    kernels: Kernels = field(default_factory=Kernels)
    propagation: Propagation = field(default_factory=Propagation)
    resharding: Resharding = field(default_factory=Resharding)
    rewriting: Rewriting = field(default_factory=Rewriting)
    messages: Messages = field(default_factory=Messages)
    fusion: Fusion = field(default_factory=Fusion)
    chunks: Chunks = field(default_factory=Chunks)
    scheduling: Scheduling = field(default_factory=Scheduling)
    search: Search = field(default_factory=Search)

    def with_values(self, values: Mapping[str, Any]) -> CostModel:
        """Return the model with other values for some fields, by name, as in `{"links.peer_seconds": 0.0}`."""
        model = self
        for name, value in values.items():
            group, _, field_name = name.partition(".")
            changed_group = replace(getattr(model, group), **{field_name: value})
            model = replace(model, **{group: changed_group})
        return model


DEFAULT = CostModel()
