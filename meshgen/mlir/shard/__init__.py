"""The dialect `shard`, in which every stage is printed: grids, shardings, annotations, collectives."""
