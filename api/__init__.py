"""How it is asked over HTTP: routes, schemas, security, errors."""
