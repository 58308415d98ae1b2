"""When every rank of a module does what, predicted for a machine: hosts, links, slow devices."""
