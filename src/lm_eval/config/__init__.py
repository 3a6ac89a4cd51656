"""Configuration as people write it: YAML files and field specs.

Read in this order: limits, filters, fields, functions, yaml, schema, arguments.
"""

from lm_eval.addresses.finder import attributes_of

__getattr__ = attributes_of(__name__)
