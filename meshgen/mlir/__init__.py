"""Between xDSL's operations and graphs, dialect by dialect."""
