"""What programs written for EleutherAI's harness import and our own code does not need.

``lm_eval.addresses`` puts each of these at the address where such programs look for it.

Read in this order: helpers, task_helpers, batching, generation, tensors, remote_tokenizer, tracker,
evaluate_config, absent, hflm.
"""
