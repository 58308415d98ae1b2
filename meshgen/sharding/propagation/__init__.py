"""What propagation is made of: choices along each mesh axis, their costs and their solution."""
