"""Records of dialects: what merging keeps and refuses, and what is imported for which text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.ir import Operation

from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.families import core_dialects, dialects
from meshgen.mlir.reading import Reading


def _first(importer: Importer, operation: Operation) -> None: ...
def _second(importer: Importer, operation: Operation) -> None: ...
def _find(reading: Reading, operation: Operation) -> None: ...
def _guess(reading: Reading, operation: Operation) -> None: ...


def test_tables_of_all_parts_are_in_the_whole_in_their_order() -> None:
    whole = merged(
        Dialect(importers={"a.x": _first}, mesh_finders=(_find,)),
        Dialect(importers={"b.x": _second}, mesh_finders=(_guess,)),
    )
    assert whole.importers == {"a.x": _first, "b.x": _second}
    assert whole.mesh_finders == (_find, _guess)


def test_a_name_that_two_parts_define_is_refused() -> None:
    with pytest.raises(ValueError, match=r"importers: a\.x defined twice"):
        merged(Dialect(importers={"a.x": _first}), Dialect(importers={"a.x": _second}))


def test_every_importer_and_verifier_is_of_a_defined_operation() -> None:
    known, names = dialects(), {operation.name for operation in dialects().context.loaded_ops}
    assert {*known.importers, *known.verifiers, *known.module_ops, *known.whole_axes} <= names


def test_texts_that_name_no_upstream_dialect_need_none() -> None:
    assert dialects("stablehlo.add") is core_dialects()
    assert dialects("sdy.mesh @mesh = <[]>") is core_dialects()
    for text, names in (
        ("%c = arith.constant 1 : index", ("arith.",)),
        ("mesh.cluster @m", ("mesh.",)),
        ("{mesh_cluster = @m}", ("mesh.",)),
    ):
        known = dialects(text)
        found = {each.name for each in known.context.loaded_ops} - {
            each.name for each in core_dialects().context.loaded_ops
        }
        assert all(any(name.startswith(each) for name in found) for each in names)
        assert ("mesh." in names) == any(name.startswith("mesh.") for name in found)
        assert ("arith." in names) == any(name.startswith("tosa.") for name in found)
    assert dialects("arith.constant mesh.cluster") is dialects()


def test_upstream_is_imported_with_the_first_text_that_names_it() -> None:
    code = """if True:
        import sys
        from meshgen.mlir.text import parse_text
        parse_text("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }")
        assert "meshgen.mlir.tosa.operations" not in sys.modules
        parse_text("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { %y = math.exp %x : tensor<2xf32>  return %y : tensor<2xf32> }")
        assert "meshgen.mlir.tosa.operations" in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True)
