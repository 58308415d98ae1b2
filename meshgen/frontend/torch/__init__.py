"""The PyTorch front end: importer for programs of `torch.export`, and conversion of DTensor placements."""
