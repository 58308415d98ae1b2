"""What `torch.compile` launches for the programs that meshgen is measured by, counted in the code that Inductor writes. No GPU is needed."""
