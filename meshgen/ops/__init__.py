"""What every op is: types, meaning, errors, sharding rules."""
