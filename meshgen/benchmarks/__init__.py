"""The suites of `meshgen bench` (one file each), with shared records, file formats, comparison of runs and machine
profiles.
"""
