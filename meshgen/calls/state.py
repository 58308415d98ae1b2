"""The state of a program: its donated arguments, each with the result that replaces it in the next step.

step(params, x) -> (loss, new_params)        State({"params.w": 1, "params.b": 2})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class State:
    """The donated arguments that a session carries from step to step.

    Attributes:
        next_values: by argument name, the index of the result that is its next value. An argument that the program
            ignores is included if the result structure has its next value.
        undecided: by argument name, a message with a hint for each donated argument whose next value is ambiguous.
    """

    next_values: Mapping[str, int] = field(default_factory=dict[str, int])
    undecided: Mapping[str, str] = field(default_factory=dict[str, str])
