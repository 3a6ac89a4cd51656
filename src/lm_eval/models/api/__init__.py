"""The parts of ``TemplateAPI``: settings, tokens, plans of requests, replies."""
