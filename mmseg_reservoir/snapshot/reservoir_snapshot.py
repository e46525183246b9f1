"""A reservoir as plain data, which can be taken from one pipeline and loaded into another."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import Tensor

from .. import methods, routing  # noqa: F401  # their classes combine the saved states
from ..core.pipeline import AdaptationPipeline
from ..core.reservoir import Tally
from ..core.reservoir_part import State, padded, part_class
from ..core.reservoir_pipeline import ReservoirPipeline
from ..errors import ReservoirError, refusing
from ..style.calibration import Calibration
from .source_identity import calibration_digest, describe_differences, identity_of, source_weights
from .vector_layout import VectorLayout

COMPONENTS = ("router", "guard", "pooling", "alignment")
"""Parts of a pipeline with a state per expert, in addition to the reservoir."""


explained = refusing("the content of the reservoir is invalid", "save it again, or restore a copy")
"""Decorates functions that read a reservoir's states, since its files may be malformed."""


@dataclass(frozen=True)
class Expert:
    """One expert and all that belongs to it.

    Args:
        parameters: Its parameters as a flat vector.
        method: The state of its method, including that of the optimizer.
        tally: Its numbers of images, visits and updates.
        parts: Its entry in the state of router, guard, pooling and alignment, by their names.
    """

    parameters: Tensor
    method: State
    tally: Tally
    parts: dict[str, State | None]


@dataclass(frozen=True)
class ReservoirSnapshot:
    """The content of a reservoir.

    Args:
        identity: What must agree for its experts to be usable (see :func:`identity_of`), the
            checksum of the calibration, and the options of its components.
        layout: Layout of the experts' vectors.
        k_max: Largest number of experts.
        about: Options of the run that saved it.
        calibration: Calibration that the router was fitted to; None for a router without styles.
        shared: State that all experts share, of the method and of each component.
        experts: The experts. The first is that of the source.
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
        """Return a copy with other experts, and optionally with other entries of ``shared``."""
        changed = replace(self, experts=experts, shared={**self.shared, **(shared or {})})
        for name in self.components:
            changed = changed.with_state(name, self.part(name).regroup(changed.state_of(name)))
        return changed

    def with_state(self, component: str, state: State) -> ReservoirSnapshot:
        """Return a copy with another state of a component."""
        if "experts" not in state:  # a custom part without entries per expert
            return replace(self, shared={**self.shared, component: {"undivided": state}})
        entries = padded(state["experts"], len(self.experts))
        experts = [
            replace(expert, parts={**expert.parts, component: entry})
            for expert, entry in zip(self.experts, entries, strict=True)
        ]
        common = {name: value for name, value in state.items() if name != "experts"}
        return replace(self, shared={**self.shared, component: common}, experts=experts)

    def state_of(self, component: str) -> State:
        """Return the whole state of a component."""
        if "undivided" in self.shared[component]:
            return self.shared[component]["undivided"]
        entries = [expert.parts[component] for expert in self.experts]
        return {**self.shared[component], "experts": entries}

    def part(self, component: str) -> Any:
        """Return the class of a component; its class methods combine saved states."""
        name = self.identity[component]
        if "undivided" in self.shared[component]:
            raise ReservoirError(
                f"experts with the {component} {name} can be neither merged nor pruned: its "
                'state_dict() must return {"shared": ..., "experts": [one entry per expert]}'
            )
        kind = part_class(name)
        if kind is None:
            raise ReservoirError(
                f"the {component} {name} of the reservoir is not loaded: import the file that "
                "defines it"
            )
        return kind

    def summary(self, expert: Expert) -> dict[str, State]:
        """Return each component's summary of an expert, as plain JSON values."""
        kinds = {name: part_class(self.identity[name]) for name in expert.parts}
        return {
            name: kind.summary(entry)
            for name, kind in kinds.items()
            if kind is not None and (entry := expert.parts[name]) is not None
        }

    @property
    def kinds(self) -> dict[str, Any]:
        """The identity without the options of the components."""
        return {name: value for name, value in self.identity.items() if name != "options"}

    def options(self, component: str) -> State:
        """Return the options of a component in which reservoirs must agree to be merged."""
        return self.identity["options"][component]

    @property
    def components(self) -> list[str]:
        """The names in ``COMPONENTS`` that the reservoir has."""
        return [name for name in COMPONENTS if self.identity.get(name) is not None]


def take_snapshot(pipeline: AdaptationPipeline, about: Mapping[str, Any]) -> ReservoirSnapshot:
    """Return a snapshot of a pipeline's reservoir, as a copy."""
    if not isinstance(pipeline, ReservoirPipeline):
        raise ReservoirError(
            f"a {type(pipeline).__name__} has no reservoir that could be saved: run the method "
            "with a reservoir, reservoir=dict(preset=...)"
        )
    router = pipeline.router
    if router.needs_style and router.calibration is None:
        raise ReservoirError(
            "the router has no calibration that could be saved with it: fit() it first (and call "
            "super().fit(calibration) in a custom router)"
        )
    state, weights = pipeline.state_dict(), source_weights(pipeline)
    identity = identity_of(pipeline, weights)
    identity |= {"calibration": calibration_digest(router.calibration), "options": {}}
    # The counts belong to the run, not to the reservoir.
    method = {name: value for name, value in state["method"].items() if name != "counts"}
    experts = [
        Expert(own["parameters"], own["method"], Tally(**own["tally"]), {})
        for own in state["reservoir"]["experts"]
    ]
    shared = {
        "method": method,
        "weights": sorted(weights),
        "parameter_like": _parameter_like(pipeline),
        "one_optimizer": _has_one_optimizer([expert.method for expert in experts]),
    }
    snapshot = ReservoirSnapshot(
        identity,
        VectorLayout.of(pipeline.method.space),
        router.k_max,
        dict(about),
        router.calibration,
        shared,
        experts,
    )
    for name in snapshot.components:
        identity["options"][name] = getattr(pipeline, name).merge_options()
        snapshot = snapshot.with_state(name, state[name])
    return snapshot


@explained
def load_snapshot(snapshot: ReservoirSnapshot, pipeline: AdaptationPipeline) -> None:
    """Load a snapshot into a pipeline of the same identity; no source image is needed."""
    if not isinstance(pipeline, ReservoirPipeline):
        raise ReservoirError(
            f"a {type(pipeline).__name__} has no room for the experts of a reservoir: run the "
            "method with a reservoir, reservoir=dict(start_from=...)"
        )
    ours = identity_of(pipeline, source_weights(pipeline))
    saved = {name: snapshot.identity.get(name) for name in ours}
    changes = describe_differences(saved, ours)
    router = pipeline.router
    if not changes:
        # Numbers may differ or be unset in the pipeline: they are loaded with the state.
        kinds = _without_numbers(router.merge_options())
        saved_kinds = _without_numbers(snapshot.options("router"))
        changes += describe_differences(saved_kinds, kinds, "router")
    if changes:
        raise ReservoirError(
            f"the reservoir is not of this model and these options ({'; '.join(changes)}; that of "
            "the reservoir first): use those that it was saved with, or start without it"
        )
    count = len(snapshot.experts)
    if count > router.k_max:
        raise ReservoirError(
            f"the reservoir has {count} experts, this run has room for {router.k_max}: set "
            f"reservoir.k_max={max(count, snapshot.k_max)}, or prune it (reservoir experts prune)"
        )
    if snapshot.calibration is not None:
        router.calibrate(snapshot.calibration)
    load_experts(snapshot, pipeline)
    if snapshot.calibration is not None:  # a misfit fails here, not at a batch
        copy.deepcopy(router).route(snapshot.calibration.styles[0], may_open=False)


def load_experts(
    snapshot: ReservoirSnapshot, pipeline: ReservoirPipeline, last: int | None = None
) -> None:
    """Load a snapshot into a pipeline that it is known to fit.

    Args:
        snapshot: The snapshot.
        pipeline: The pipeline, with a fitted router.
        last: The expert of the previous batch. Defaults to None, no previous batch.
    """
    method = {**snapshot.shared["method"], "counts": dict(pipeline.method.counts)}
    # The trigger belongs to the run: its state does not change.
    trigger = {} if pipeline.trigger is None else {"trigger": pipeline.trigger.state_dict()}
    pipeline.load_state_dict(
        {
            "pipeline": type(pipeline).__name__,
            "parameters": list(snapshot.layout.names),
            "method": method,
            "reservoir": {
                "shared": {"source": method["source"]},
                "experts": [
                    {"parameters": e.parameters, "method": state, "tally": asdict(e.tally)}
                    for e, state in zip(snapshot.experts, _states(snapshot), strict=True)
                ],
                "stream": {"last": last},
            },
            **{name: snapshot.state_of(name) for name in snapshot.components},
            **trigger,
        }
    )


def _without_numbers(options: State) -> State:
    return {name: value for name, value in options.items() if isinstance(value, (str, dict))}


def _parameter_like(pipeline: ReservoirPipeline) -> list[str]:
    """Return the names in a domain's state under which vectors are laid out as parameters."""
    state = pipeline.reservoir.checkout(0)[1]
    vectors = {id(vector) for vector in pipeline.method.parameter_like_state(state)}
    return [name for name, value in state.items() if id(value) in vectors]


def _has_one_optimizer(states: list[State]) -> bool:
    """Return whether all experts share one optimizer state, as in SAR's published code."""
    return len(states) > 1 and all(s["optimizer"] is states[0]["optimizer"] for s in states)


def _states(snapshot: ReservoirSnapshot) -> list[State]:
    states = [dict(expert.method) for expert in snapshot.experts]
    if snapshot.shared["one_optimizer"]:
        for state in states:
            state["optimizer"] = states[0]["optimizer"]
    return states
