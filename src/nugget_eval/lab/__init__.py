"""Runs of the judge as the format lab sees them."""
