"""The `.mgx` file: its members, its manifest, signatures."""
