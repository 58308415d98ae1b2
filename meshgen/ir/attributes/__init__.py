"""The attributes of ops: a class per set of attributes, a file per family."""
