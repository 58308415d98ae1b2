"""Reader and printer of MLIR text: parser, printer, and conversion between xDSL operations and graphs, one folder per
dialect.
"""
