"""What meshgen is tested with, and `meshgen check`: the oracle, random programs, shrinking."""
