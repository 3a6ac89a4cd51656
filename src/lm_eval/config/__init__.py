"""Configuration as people write it: YAML files and field specs.

Read in this order: fields, functions, pairs, yaml_loader, yaml.
"""
