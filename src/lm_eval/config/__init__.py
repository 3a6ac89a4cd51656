"""Configuration as people write it: YAML files and field specs.

Read in this order: budget, sandbox, filters, fields, functions, pairs, yaml_loader, yaml.
"""

from lm_eval.addresses.finder import attributes_of

__getattr__ = attributes_of(__name__)
