"""Triggers: what asks for jobs when nobody does. They enqueue; the policy says when it runs."""
