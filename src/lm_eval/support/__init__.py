"""What every room uses: the terminal, progress, secrets, JSON, names, and files written whole.

Read in this order: encode, files, markdown, numbers, secrets, terminal, columns, progress.
"""
