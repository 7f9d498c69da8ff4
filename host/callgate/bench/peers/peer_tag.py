"""The name of the image that llm-sandbox runs; `peer_image` makes it. Apart, since its process has nothing of ours."""

from __future__ import annotations

__all__ = ["TAG"]

TAG = "callgate-bench-peer"
