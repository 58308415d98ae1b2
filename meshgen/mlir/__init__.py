"""MLIR text in and out: parser, printer, and conversion between xDSL's operations and graphs, dialect by dialect."""

from __future__ import annotations

from importlib import import_module

from meshgen.records import sharing_methods

with sharing_methods("xdsl"):
    for _name in ("dialects.func", "dialects.shard", "parser", "printer"):
        import_module(f"xdsl.{_name}")
