"""APIs of providers that do not speak OpenAI's protocol, or speak it at addresses of their own.

Read in this order: native, anthropic, gemini, azure.
"""
