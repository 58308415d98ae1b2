"""The dialect `stablehlo`; `mhlo` is read as `stablehlo`."""
