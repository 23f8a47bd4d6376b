"""Why a pass was not replayed."""

from __future__ import annotations

import warnings
from typing import Any

from deq import _core
from deq._core import Equilibrated


class ReplayNotice:
    """Says once why passes are evaluated where replay was asked for and this device has none. What a recording was
    refused for, C++ says."""

    def __init__(self, replay: Any) -> None:
        self._replay = replay
        self._is_due = replay is True or replay == "checked"

    def look_at(self, eq: Equilibrated) -> None:
        if not self._is_due or eq.replayed:
            return
        reason = _core.why_not_replayed(eq.z)
        if reason is not None:
            self._is_due = False
            warnings.warn(f"replay={self._replay!r}, but z is evaluated step by step: {reason}", stacklevel=4)
