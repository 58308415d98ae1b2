from meshgen.emulator.table import MAKERS

__all__ = ["MAKERS"]
