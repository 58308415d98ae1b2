"""The PyTorch front end: programs of `torch.export`, and sharding in the words of DTensor."""
