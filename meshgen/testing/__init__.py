"""Tools for testing meshgen and for `meshgen check`: the oracle, random programs, shrinking."""
