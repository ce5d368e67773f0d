"""Commands of jobs: training, control, curves, triggers."""
