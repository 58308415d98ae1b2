"""MLIR text in and out: parser, printer, and conversion between xDSL's operations and graphs, dialect by dialect."""

from __future__ import annotations

from importlib import import_module

from meshgen.records import sharing_methods

with sharing_methods("xdsl"):
    for _name in ("irdl", "parser", "printer"):
        import_module(f"xdsl.{_name}")
    from meshgen.mlir.formats import late_formats

    with late_formats():
        for _name in ("func", "shard"):
            import_module(f"xdsl.dialects.{_name}")
