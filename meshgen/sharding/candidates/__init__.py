"""Candidates for propagation (equivalent programs, or other shardings of one program), and the choice among them."""
