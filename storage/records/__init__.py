"""Rows as frozen, typed dataclasses, independent of the database connection.

Import a record from its module: creating a dataclass takes half a millisecond, and a training child
needs few of them.
"""
