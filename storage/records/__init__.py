"""Rows as they leave storage: frozen, typed, without a connection behind them.

Who needs a record imports its module: to make a dataclass takes half a millisecond, and a training
child needs few of them.
"""
