"""What ``lm-eval run`` prints at its end: scores with a picture, findings, warnings, next commands.

Made to be read in ten seconds: one line for each score and for each finding. Whoever wants the numbers
behind it gets the command that prints them.

Read in this order: remarks, page.
"""
