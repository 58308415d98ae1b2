"""The attribute classes of ops: one class per set of attributes, one file per op family."""
