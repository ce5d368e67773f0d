"""What jobs learn from real data sets, compared with manual recipes."""
