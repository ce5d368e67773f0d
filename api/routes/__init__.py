"""Routes of the HTTP contract, one module per resource."""
