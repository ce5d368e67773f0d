"""Promotion: whether a new version becomes `latest`. docs/promotion.md says it in words."""
