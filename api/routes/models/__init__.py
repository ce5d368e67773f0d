"""Routes of models: diagnosis, registration, and the models themselves."""
