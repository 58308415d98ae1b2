"""What is proven of a module before anything of it runs."""
