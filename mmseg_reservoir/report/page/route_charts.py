"""Charts of routing: which expert, how sure, what alignment and guard did, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from ..figure_data import assignment, by_stretch, expert_use, guard_events, milliseconds
from ..shown_run import ShownRun
from .base import ALARM, Chart, colour, draw, heatmap


def route_charts(run: ShownRun) -> list[Chart]:
    """All charts about the experts of one run."""
    charts = [_assignment(run), _experts_over_time(run), _route_entropy(run)]
    return [*charts, *_alignment(run), *_guard(run)]


def _assignment(run: ShownRun) -> Chart:
    found = assignment(run.results["routes"])
    experts = [f"expert {e}" for e in found.experts]
    cells = heatmap(
        found.shares,
        experts,
        found.domains,
        "%{y}: %{text} images, %{z:.1%}, to %{x}",
        "%{text}",
        text=found.counts,
        zmin=0,
        zmax=1,
    )
    figure = draw([cells], height=90 + 34 * len(found.domains))
    figure.update_yaxes(autorange="reversed")
    note = "Images of every domain by expert; the color is the share of the domain's images."
    return Chart("Experts and domains", figure, note)


def _experts_over_time(run: ShownRun) -> Chart:
    use = expert_use(run.results["routes"])
    experts = [f"expert {e}" for e in range(len(use.shares))]
    cells = heatmap(
        use.shares,
        use.labels,
        experts,
        "%{x}: %{z:.0%} of the images to %{y}; K = %{text}",
        zmin=0,
        zmax=1,
        text=[use.k] * len(experts),
    )
    figure = draw([cells], height=130 + 24 * len(experts))
    note = "Which share of a visit's images went to which expert, in the order of the stream."
    return Chart("Experts over time", figure, note, wide=True)


def _route_entropy(run: ShownRun) -> Chart:
    means = by_stretch(run.results["routes"], "route_entropy")
    bars = go.Bar(
        x=list(means),
        y=list(means.values()),
        marker=dict(color=colour(0)),
        hovertemplate="%{x}: %{y:.3f} nats<extra></extra>",
    )
    note = "How undecided the router is: entropy of the experts' shares, mean by visit."
    return Chart("Posterior entropy", draw([bars], y="nats"), note)


def _alignment(run: ShownRun) -> list[Chart]:
    """The strength of alignment by expert and layer; nothing without an aligned expert."""
    experts = (run.results.get("alignment") or {}).get("experts")
    if not experts:
        return []
    deepest = max((own["strength"] for own in experts.values()), key=len)
    layers = list(deepest)
    strengths = [
        [sum(own["strength"].get(name, (0, 0))) / 2 for name in layers] for own in experts.values()
    ]
    names = [f"expert {index} (reach {own['reach']:g})" for index, own in experts.items()]
    hover = "%{y}, %{x}: %{z:.0%} of the way to the source"
    figure = draw([heatmap(strengths, layers, names, hover, zmin=0, zmax=1)], height=260)
    figure.update_xaxes(showticklabels=False, title="layers, in the order of the forward pass")
    trials = run.results["alignment"]["events"]
    taken = sum(trial["taken"] for trial in trials)
    note = (
        "How far each expert moves the feature moments of its domain towards the source's, mean of "
        f"shift and scale. {len(trials)} trials of another reach, {taken} taken."
    )
    return [Chart("Alignment", figure, note)]


def _guard(run: ShownRun) -> list[Chart]:
    if run.results.get("guard") is None:
        return []
    events = guard_events(run.results)
    points = go.Scatter(
        x=[event.step for event in events],
        y=[f"expert {event.expert}" for event in events],
        mode="markers",
        marker=dict(size=[6 + 14 * (1 - event.keep) for event in events], color=ALARM, opacity=0.6),
        customdata=[[event.label, event.sign, event.excess, event.keep] for event in events],
        hovertemplate=(
            "batch %{x}, %{customdata[0]}: %{y} %{customdata[1]}, %{customdata[2]:.2f} of its "
            "bound, and kept %{customdata[3]:.0%} of its way<extra></extra>"
        ),
    )
    steps = len(run.results["routes"])
    figure = draw([points], "batch", height=260 if events else 110)
    figure.update_xaxes(range=[0, steps + 1])
    figure.update_yaxes(visible=bool(events))
    note = "No alarm: no expert lost classes, drifted or grew too sure."
    if events:
        note = (
            f"{len(events)} alarm{'s' * (len(events) > 1)}: an expert lost classes, drifted or "
            "grew too sure, and was pulled back towards the source."
        )
    return [Chart("Guard", figure, note)]


def time_chart(runs: Sequence[ShownRun]) -> Chart | None:
    """Time per image of every run, by stage; None if it was not measured."""
    times = {run.name: milliseconds(run.results) for run in runs}
    stages = list(dict.fromkeys(stage for parts in times.values() for stage in parts))
    if not stages:
        return None
    bars = [
        go.Bar(
            y=list(times),
            x=[parts.get(stage) for parts in times.values()],
            name=stage,
            orientation="h",
            marker=dict(color=colour(i)),
            hovertemplate=f"%{{y}}: {stage} %{{x:.1f}} ms<extra></extra>",
        )
        for i, stage in enumerate(stages)
    ]
    figure = draw(bars, "ms per image", height=130 + 34 * len(runs), barmode="stack")
    figure.update_yaxes(autorange="reversed")
    return Chart("Time per image", figure, wide=True)
