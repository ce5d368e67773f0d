"""Routes of models: diagnosis and registration, the models themselves, two versions compared."""
