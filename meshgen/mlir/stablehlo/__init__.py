"""Reader and printer of the dialect `stablehlo`. Programs in `mhlo` are read as `stablehlo`."""
