"""The suites of `meshgen bench`, one file each, and what they share: records, file formats, comparison of runs, machine
profiles.
"""
