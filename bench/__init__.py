"""Benchmarks: `python -m bench [NAME …]`. Both sides run in one run, figures are medians."""
