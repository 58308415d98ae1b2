"""Shardy's dialect `sdy`: meshes, shardings, collectives, manual computations, directives of propagation."""
