"""Testing of meshgen, and `meshgen check`: the oracle, random programs, shrinking."""
