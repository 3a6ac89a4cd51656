"""The documented addresses: ``lm_eval.api.template``, ``.task``, ``.registry``, ``.model`` …

Read in this order: filter, group, instance, metrics, model, registry, samplers, task, template.
"""

from lm_eval.addresses.finder import attributes_of

__getattr__ = attributes_of(__name__)
