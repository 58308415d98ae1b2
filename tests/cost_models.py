"""Replace fields of the cost model, for tests of decisions that depend on them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from meshgen.cost_model.model import DEFAULT


def use(monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], *readers: ModuleType) -> None:
    """Let the modules `readers` see a cost model with other `values` of fields such as `search.table_cells`."""
    for reader in readers:
        assert hasattr(reader, "DEFAULT"), f"{reader.__name__} does not read the cost model"
        monkeypatch.setattr(reader, "DEFAULT", DEFAULT.with_values(values))
