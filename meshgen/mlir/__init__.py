"""MLIR text in and out: parser, printer, and conversion between xDSL's operations and graphs, dialect by dialect."""
