"""How often the options of a run are resolved, for tests: once is enough."""

from __future__ import annotations

from typing import Any

import pytest

from mmseg_reservoir.config.builder import RunBuilder


def count_plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets an entry whenever a run builder is made."""
    made, init = [], RunBuilder.__init__

    def counted(self: RunBuilder, *args: Any, **options: Any) -> None:
        made.append("builder")
        init(self, *args, **options)

    monkeypatch.setattr(RunBuilder, "__init__", counted)
    return made
