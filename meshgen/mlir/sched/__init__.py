"""The `sched` dialect of the stage `schedule`."""
