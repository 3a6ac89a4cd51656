"""What tests of the judge of nuggets share."""
