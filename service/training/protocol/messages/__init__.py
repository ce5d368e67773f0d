"""Messages between parent and training child: one JSON object per line.

The parent's first line on the child's stdin is a task; later lines are commands; end of file
means that the parent is gone. The child answers with messages on stdout, the last of which ends
the task: `unions.py` has the list.

Each kind of task has its own module: a child only loads that of its task.
"""
