"""Shardy's dialect `sdy`: meshes, shardings, collectives, manual computations and propagation directives."""
