"""Sharding propagation: reachable states and labels along each mesh axis, their costs, and the solver."""
