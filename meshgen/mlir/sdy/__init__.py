"""Reader and printer of Shardy's dialect `sdy`: meshes, shardings, collectives, manual computations, propagation
directives.
"""
