"""The rules of Python, and tools over them: what `agent_rules.py` answers from.

The corpus is the language reference as every Python carries it, in `pydoc_data.topics`: some 80 topics, here cut into
sections. The rules differ a little between versions of Python; so do the answers.
"""
