"""Tools for testing meshgen and for `meshgen check`: the oracle, random programs, and the shrinking of failing
programs.
"""
