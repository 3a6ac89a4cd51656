"""APIs of providers with their own protocol, or with OpenAI's at their own addresses.

Read in this order: native, anthropic, gemini, azure.
"""
