"""The files of a nugget evaluation: rows, records, items."""
