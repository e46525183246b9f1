"""How often the plan of a run is made, for tests: once is enough."""

from __future__ import annotations

from typing import Any

import pytest

from mmseg_reservoir.config import method_plan


def count_plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets an entry whenever a plan tries its optimizer."""
    made, pick = [], method_plan.pick_optimizer

    def counted(*args: Any) -> Any:
        made.append("plan")
        return pick(*args)

    monkeypatch.setattr(method_plan, "pick_optimizer", counted)
    return made
