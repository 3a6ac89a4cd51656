"""The parts of ``TemplateAPI``: settings, tokens, plans of requests, replies.

Read in this order: settings, replies, scoring, generation, enforcer, calls, probe, tokenizers,
facts.
"""
