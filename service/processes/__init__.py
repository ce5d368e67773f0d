"""Child processes: how they are started, what they inherit, and how their exits are described."""
