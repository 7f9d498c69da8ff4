"""One model's conversation: which tools it has found, and which were loaded for it."""

from __future__ import annotations

from .conversation import Conversation, Loader

__all__ = ["Conversation", "Loader"]
