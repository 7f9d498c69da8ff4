"""What an operator may set about a server. Frozen values; says what each means and refuses what cannot be."""

from __future__ import annotations

from dataclasses import dataclass

from callgate.errors import ConfigurationError

__all__ = ["Serving"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """How a runtime is served.

    Raises:
        ConfigurationError: a value that cannot be.
    """

    name: str = "callgate"
    """The server's name, as clients show it."""
    direct: tuple[str, ...] = ()
    """Tools that the client sees and calls as they are, besides the meta-tools: names, ``server.tool``, or patterns
    such as ``github.*``. Only tools that allow callers of kind ``direct``."""
    sessions: int = 4
    """Sandboxes that one client session may keep open at the same time (`execute_code` with `session`)."""
    session_idle_seconds: float = 600.0
    """A kept sandbox that is not used for so long is ended."""
    reveal: bool = False
    """Tools that `search_tools` found are listed, too, for that client session alone, and may be called directly."""
    approval_seconds: float = 300.0
    """How long a person may take over a question; then the answer is no. The run's `wall_seconds` go on meanwhile."""

    def __post_init__(self) -> None:
        for field in ("sessions", "session_idle_seconds", "approval_seconds"):
            if not getattr(self, field) > 0:
                raise ConfigurationError(f"{field} must be above 0, not {getattr(self, field)!r}")
