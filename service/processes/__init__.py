"""Child processes: how they are started, what they inherit, and how their ends are told."""
