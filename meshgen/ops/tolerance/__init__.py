"""How far two executions of one program may lie apart."""
