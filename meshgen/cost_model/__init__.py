"""The cost model: all constants that decide between plans, each with its unit and source."""
