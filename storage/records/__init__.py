"""Rows as frozen, typed dataclasses, independent of the database connection.

Who needs a record imports its module: to make a dataclass takes half a millisecond, and a training
child needs few of them.
"""
