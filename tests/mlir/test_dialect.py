"""Tests of dialect records: how records are merged, and which dialects are imported for a text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.ir import Operation

from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.families import core_dialects, dialects
from meshgen.mlir.reader_state import Reading


def _first(importer: Importer, operation: Operation) -> None: ...
def _second(importer: Importer, operation: Operation) -> None: ...
def _find(reading: Reading, operation: Operation) -> None: ...
def _guess(reading: Reading, operation: Operation) -> None: ...


def test_merged_dialect_has_all_tables_in_order() -> None:
    dialect = merged(
        Dialect(importers={"a.x": _first}, mesh_finders=(_find,)),
        Dialect(importers={"b.x": _second}, mesh_finders=(_guess,)),
    )
    assert dialect.importers == {"a.x": _first, "b.x": _second}
    assert dialect.mesh_finders == (_find, _guess)


def test_merging_duplicate_importers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"importers: a\.x defined twice"):
        merged(Dialect(importers={"a.x": _first}), Dialect(importers={"a.x": _second}))


def test_every_importer_and_verifier_has_a_defined_operation() -> None:
    dialect, names = dialects(), {operation.name for operation in dialects().context.loaded_ops}
    assert {*dialect.importers, *dialect.verifiers, *dialect.module_ops, *dialect.whole_axes} <= names


def test_text_without_upstream_dialects_uses_core_dialects() -> None:
    assert dialects("stablehlo.add") is core_dialects()
    assert dialects("sdy.mesh @mesh = <[]>") is core_dialects()
    for text, names in (
        ("%c = arith.constant 1 : index", ("arith.",)),
        ("mesh.cluster @m", ("mesh.",)),
        ("{mesh_cluster = @m}", ("mesh.",)),
    ):
        dialect = dialects(text)
        added_names = {operation.name for operation in dialect.context.loaded_ops} - {
            operation.name for operation in core_dialects().context.loaded_ops
        }
        assert all(any(name.startswith(operation) for name in added_names) for operation in names)
        assert ("mesh." in names) == any(name.startswith("mesh.") for name in added_names)
        assert ("arith." in names) == any(name.startswith("tosa.") for name in added_names)
    assert dialects("arith.constant mesh.cluster") is dialects()


def test_upstream_dialects_are_imported_on_first_use() -> None:
    code = """if True:
        import sys
        from meshgen.mlir.text import parse_text
        parse_text("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }")
        assert "meshgen.mlir.tosa.operations" not in sys.modules
        parse_text("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { %y = math.exp %x : tensor<2xf32>  return %y : tensor<2xf32> }")
        assert "meshgen.mlir.tosa.operations" in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True)
