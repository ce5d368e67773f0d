"""Rows as frozen, typed structs, independent of the database connection.

Import a record from its module: a training child needs few of them.
"""
