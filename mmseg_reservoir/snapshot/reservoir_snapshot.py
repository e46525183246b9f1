"""A reservoir as plain data: taken out of a pipeline, and put into another one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..core.pipeline import AdaptationPipeline
from ..core.reservoir import Tally
from ..core.reservoir_pipeline import ReservoirPipeline
from ..errors import ReservoirError, refusing
from ..style.calibration import Calibration
from . import segment_domains  # noqa: F401 (joins the table of parts)
from .domains import kind_of
from .parts import State, parts_of
from .source_identity import calibration_digest, differences, identity_of, source_weights
from .vector_layout import VectorLayout

COMPONENTS = ("router", "guard", "pooling", "alignment")
"""Of a pipeline, beside the experts themselves: what knows something of each of them."""


explained = refusing("the reservoir is not arranged as one", "save it again, or take a copy of it")
"""Decorates what reads the states of a reservoir, which may be of somebody else's making."""


@dataclass(frozen=True)
class Expert:
    """One expert and all that belongs to it.

    Args:
        parameters: Its flat vector.
        method: The state of its method, the optimizer's included.
        tally: What it has met.
        parts: What router, guard, pooling and alignment know of it, by their names.
    """

    parameters: Tensor
    method: State
    tally: Tally
    parts: dict[str, State]


@dataclass(frozen=True)
class ReservoirSnapshot:
    """All of a reservoir.

    Args:
        identity: What it means nothing without (see :func:`identity_of`), the calibration's
            checksum, and the numbers of its components.
        layout: What the experts' vectors mean.
        k_max: Room for so many experts.
        about: What whoever saved it told: the options of the run.
        calibration: What the router was fitted to; None if it looks at no styles.
        shared: What all experts share, of the method and of each component.
        experts: The first is the source's.
    """

    identity: dict[str, Any]
    layout: VectorLayout
    k_max: int
    about: dict[str, Any]
    calibration: Calibration | None
    shared: State
    experts: list[Expert]

    @explained
    def with_experts(self, experts: list[Expert], shared: State | None = None) -> ReservoirSnapshot:
        """The same with other experts, and perhaps something else that components share.

        What a component knows of each of them then follows from all of them together.
        """
        shared = {**self.shared, **(shared or {})}
        known = [dict(expert.parts) for expert in experts]
        for name in self.components:
            parts, of_all = self.parts(name), [each[name] for each in known]
            state = parts.put_together(parts.changed(shared[name]), of_all)
            shared[name], pieces = parts.take_apart(state, len(known))
            for each, piece in zip(known, pieces, strict=True):
                each[name] = piece
        pairs = zip(experts, known, strict=True)
        return replace(self, shared=shared, experts=[replace(e, parts=p) for e, p in pairs])

    @property
    def kinds(self) -> dict[str, Any]:
        """Its identity without the numbers of the components."""
        return {name: value for name, value in self.identity.items() if name != "numbers"}

    def parts(self, component: str) -> Any:
        """How the states of a component are divided."""
        return parts_of(self.identity[component])

    def numbers(self, component: str) -> State:
        """Those of a component."""
        return self.identity["numbers"][component]

    def state_of(self, component: str) -> State:
        """The whole state of a component, as it saves it."""
        parts = [expert.parts[component] for expert in self.experts]
        return self.parts(component).put_together(self.shared[component], parts)

    @property
    def components(self) -> list[str]:
        """Those of ``COMPONENTS`` that it has."""
        return [name for name in COMPONENTS if self.identity.get(name) is not None]


def take(pipeline: AdaptationPipeline, about: Mapping[str, Any]) -> ReservoirSnapshot:
    """What is in a pipeline, as a copy."""
    if not isinstance(pipeline, ReservoirPipeline):
        raise ReservoirError(
            f"a {type(pipeline).__name__} has no reservoir that could be saved: run the method "
            "with one, reservoir=dict(preset=...)"
        )
    router = pipeline.router
    if router.needs_style and router.calibration is None:
        raise ReservoirError(
            "the router knows no calibration that could be saved with it: fit() it first (and call "
            "super().fit(calibration) in a router of your own)"
        )
    state, weights = pipeline.state_dict(), source_weights(pipeline)
    identity = identity_of(pipeline, weights)
    identity |= {"calibration": calibration_digest(router.calibration), "numbers": {}}
    kept = state["reservoir"]
    # Counts are those of a run, not of a reservoir.
    method = {name: value for name, value in state["method"].items() if name != "counts"}
    shared = {
        "method": method,
        "weights": sorted(weights),
        "moving": _moving(pipeline),
        "one_optimizer": _has_one_optimizer(kept["states"]),
    }
    count = len(kept["states"])
    parts: list[dict[str, State]] = [{} for _ in range(count)]
    for name in COMPONENTS:
        if identity[name] is not None:
            divided = parts_of(identity[name])
            identity["numbers"][name] = divided.numbers(getattr(pipeline, name))
            shared[name], pieces = divided.take_apart(state[name], count)
            for expert, piece in zip(parts, pieces, strict=True):
                expert[name] = piece
    rows = zip(kept["experts"], kept["states"], kept["tallies"], parts, strict=True)
    return ReservoirSnapshot(
        identity,
        VectorLayout.of(pipeline.method.space),
        router.k_max,
        dict(about),
        router.calibration,
        shared,
        [Expert(vector.clone(), own, Tally(**tally), p) for vector, own, tally, p in rows],
    )


@explained
def put(contents: ReservoirSnapshot, pipeline: AdaptationPipeline) -> None:
    """Let a pipeline go on with these experts; no source image is needed."""
    if not isinstance(pipeline, ReservoirPipeline):
        raise ReservoirError(
            f"a {type(pipeline).__name__} has no room for the experts of a reservoir: run the "
            "method with one, reservoir=dict(start_from=...)"
        )
    ours = identity_of(pipeline, source_weights(pipeline))
    found = list(differences({name: contents.identity.get(name) for name in ours}, ours))
    router = pipeline.router
    if not found:
        # Its numbers may be others, or not be known yet: they come along.
        kinds = _without_numbers(parts_of(kind_of(router)).numbers(router))
        found += differences(_without_numbers(contents.numbers("router")), kinds, "router")
    if found:
        raise ReservoirError(
            f"the reservoir is not of this model and these options ({'; '.join(found)}; that of "
            "the reservoir first): use those that it was made with, or save one by this run"
        )
    count = len(contents.experts)
    if count > router.k_max:
        raise ReservoirError(
            f"the reservoir has {count} experts, this run has room for {router.k_max}: set "
            f"reservoir.k_max={max(count, contents.k_max)}, or prune it (reservoir experts prune)"
        )
    if contents.calibration is not None:
        router.calibrate(contents.calibration)
    go_on(contents, pipeline)
    if contents.calibration is not None:  # what does not fit together is found now, not later
        copy.deepcopy(router).route(contents.calibration.styles[0], may_open=False)


def go_on(
    contents: ReservoirSnapshot, pipeline: ReservoirPipeline, last: int | None = None
) -> None:
    """Load experts that are known to fit a pipeline, and all that is known of them.

    Args:
        contents: The experts.
        pipeline: Whose router has been fitted.
        last: The expert that the batch before went to; None if there was none.
    """
    method = {**contents.shared["method"], "counts": dict(pipeline.method.counts)}
    # A trigger is of a run, too, and has to get to know these experts.
    anew = {} if pipeline.trigger is None else {"trigger": pipeline.trigger.state_dict()}
    pipeline.load_state_dict(
        {
            "pipeline": type(pipeline).__name__,
            "parameters": list(contents.layout.names),
            "method": method,
            "reservoir": {
                "source": method["source"],
                "experts": torch.stack([expert.parameters for expert in contents.experts]),
                "states": _states(contents),
                "tallies": [asdict(expert.tally) for expert in contents.experts],
                "last": last,
            },
            **{name: contents.state_of(name) for name in contents.components},
            **anew,
        }
    )


def _without_numbers(numbers: State) -> State:
    return {name: value for name, value in numbers.items() if isinstance(value, (str, dict))}


def _moving(pipeline: ReservoirPipeline) -> list[str]:
    """Under which names the state of a domain holds vectors that are parameters as well."""
    state = pipeline.reservoir.checkout(0)[1]
    moving = {id(vector) for vector in pipeline.method.parameter_like_state(state)}
    return [name for name, value in state.items() if id(value) in moving]


def _has_one_optimizer(states: list[State]) -> bool:
    """Whether all experts go on with the same moments, as SAR's published code lets them."""
    return len(states) > 1 and all(s["optimizer"] is states[0]["optimizer"] for s in states)


def _states(contents: ReservoirSnapshot) -> list[State]:
    states = [dict(expert.method) for expert in contents.experts]
    if contents.shared["one_optimizer"]:
        for state in states:
            state["optimizer"] = states[0]["optimizer"]
    return states
