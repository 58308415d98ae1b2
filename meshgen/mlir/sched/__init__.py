"""The `sched` dialect: the schedule (stage `schedule`), and composite operations such as attention."""
