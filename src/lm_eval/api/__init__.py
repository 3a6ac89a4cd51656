"""The documented addresses: ``lm_eval.api.template``, ``.task``, ``.registry``, ``.model`` …

Read in this order: filter, group, instance, metrics, model, registry, samplers, task, template.
"""
