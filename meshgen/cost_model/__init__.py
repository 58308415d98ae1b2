"""Every constant that decides between plans, with its unit and where its value comes from."""
