"""The pure core: what Taskyard knows and decides, with no I/O, no clock and no library of the outside."""
