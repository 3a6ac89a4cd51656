"""The documented addresses: ``lm_eval.api.template``, ``.task``, ``.registry``, ``.model`` …"""
