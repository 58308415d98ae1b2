"""The `sched` dialect: the schedule of a program (stage `schedule`), and composite operations such as attention."""
