"""MLIR text in and out: parser, printer, and conversion between xDSL's operations and graphs, dialect by dialect."""

from __future__ import annotations

from importlib import import_module

from meshgen.mlir.formats import late_formats

with late_formats():
    for _name in ("func", "shard"):
        import_module(f"xdsl.dialects.{_name}")
