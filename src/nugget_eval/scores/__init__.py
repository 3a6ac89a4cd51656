"""Labels → scores of topics and runs, agreement, comparisons."""
