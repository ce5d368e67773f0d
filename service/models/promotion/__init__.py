"""Promotion: whether a new version becomes `latest`. docs/promotion.md has the rules."""
