"""Model backends: each answers requests; none knows about tasks or formats."""
