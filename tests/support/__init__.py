"""What tests share: folders to run the command line in, models, servers and cases.

Imported by its full name, with the root of the checkout on the path: pytest puts it there
(``pythonpath`` in pyproject.toml), and so does a test that starts a process which needs it.
"""
