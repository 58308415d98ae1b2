"""The dialect `shard`: device grids, shardings, annotations and collectives. Programs are printed in it at every stage."""
