"""The documented addresses: ``lm_eval.api.template``, ``.task``, ``.registry``, ``.model`` …

The other modules of this package are addresses: ``lm_eval.addresses`` has the list.

Read in this order: model, registry, task, template.
"""

from lm_eval.addresses.finder import attributes_of

__getattr__ = attributes_of(__name__)
