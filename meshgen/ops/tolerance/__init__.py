"""How far two executions of one program may differ."""
