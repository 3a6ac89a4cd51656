"""Models of ``transformers``; the documented address is ``lm_eval.models.huggingface``."""
