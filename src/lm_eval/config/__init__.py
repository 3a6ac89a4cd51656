"""Configuration as people write it: YAML files and field specs."""
