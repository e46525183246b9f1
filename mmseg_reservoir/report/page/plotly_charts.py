"""The charts of a page: scores, routing, styles and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from ..colors import ALARM, DOMAIN_COLORS, GRAY, OTHER_COLORS, nth_color
from ..routes import (
    FEWEST_STYLES,
    Projection,
    StyleMap,
    assignment,
    expert_use,
    guard_events,
    mean_by_segment,
    style_map,
)
from ..scores import by_domain, class_scores, milliseconds_by_stage, scores_by_domain
from ..shown_run import ShownRun
from .style import Chart, draw, heatmap, run_line, symbol_of

_STYLE_CAPTION = (
    "Colors are domains, markers are experts. A line follows the mean of an expert's styles from "
    "round to round and ends at the expert's number."
)


def score_charts(runs: Sequence[ShownRun]) -> list[Chart]:
    """Return a chart of the mean over the domains, and one per domain, with a line per run."""
    scores = {run.name: scores_by_domain(run.results) for run in runs}
    domains = list(dict.fromkeys(domain for run in runs for domain in run.domains))
    metric = runs[0].metric
    charts = [_lines("Mean over the domains", scores, "mean", metric, wide=True)]
    if len(domains) > 1:
        charts += [_lines(domain, scores, domain, metric) for domain in domains]
    return charts


def extra_set_charts(runs: Sequence[ShownRun]) -> list[Chart]:
    """Return a chart of every extra evaluation set: the score after each round."""
    scores = {run.name: by_domain(run.results.get("also") or []) for run in runs}
    names = list(dict.fromkeys(name for rows in scores.values() for name in rows))
    caption = "Tested with frozen experts after every round. It is not part of the stream."
    metric = runs[0].metric
    return [
        _lines(name, scores, name, metric, x="after round", caption=caption, wide=len(names) == 1)
        for name in names
    ]


def _lines(
    title: str,
    scores: Mapping[str, Mapping[str, Sequence[float]]],
    domain: str,
    metric: str,
    x: str = "visit",
    caption: str = "",
    wide: bool = False,
) -> Chart:
    hover = f"%{{fullData.name}}<br>{x} %{{x}}: %{{y:.2f}}<extra></extra>"
    traces = [
        go.Scatter(
            x=list(range(1, len(rows[domain]) + 1)),
            y=list(rows[domain]),
            name=name,
            mode="lines+markers",
            **run_line(i),
            hovertemplate=hover,
        )
        for i, (name, rows) in enumerate(scores.items())
        if domain in rows
    ]
    figure = draw(traces, x, f"{metric} (%)", height=360 if wide else 240)
    figure.update_xaxes(dtick=1 if max(len(t.x) for t in traces) <= 20 else None)
    return Chart(title, figure, caption, wide)


def class_charts(runs: Sequence[ShownRun]) -> list[Chart]:
    """Return a heatmap per run: IoU by class and domain in the last round; none of classifiers."""
    charts = []
    for run in runs:
        last = run.results["visits"][-1]["round"]
        scores = class_scores(run.results, last)
        if not scores:
            continue
        domains, classes = run.domains, list(scores)[::-1]  # the first at the top
        rows = [[scores[name].get(domain) for domain in domains] for name in classes]
        hover, height = "%{y}, %{x}: IoU %{z:.1f}", 60 + 22 * len(classes)
        figure = heatmap(rows, domains, classes, hover, height, "%{z:.0f}", top=100)
        charts.append(Chart(run.name, figure, f"IoU (%) in round {last}."))
    return charts


def route_charts(run: ShownRun) -> list[Chart]:
    """Return all charts of the experts of a run."""
    charts = [_assignment(run), _experts_over_time(run), _route_entropy(run)]
    return [*charts, *_alignment(run), *_guard(run), *_styles(run)]


def _assignment(run: ShownRun) -> Chart:
    domains, numbers, counts = table = assignment(run.results["routes"])
    experts = [f"expert {number}" for number in numbers]
    hover, height = "%{y}: %{text} images, %{z:.1%}, to %{x}", 90 + 34 * len(domains)
    figure = heatmap(table.shares, experts, domains, hover, height, "%{text}", text=counts)
    figure.update_yaxes(autorange="reversed")
    caption = "Images by domain and expert. The color is the share of the domain's images."
    return Chart("Experts and domains", figure, caption)


def _experts_over_time(run: ShownRun) -> Chart:
    labels, shares, k = expert_use(run.results["routes"])
    experts = [f"expert {number}" for number in range(len(shares))]
    hover, height = "%{x}: %{z:.0%} of the images to %{y}; K = %{text}", 130 + 24 * len(experts)
    figure = heatmap(shares, labels, experts, hover, height, text=[k] * len(experts))
    caption = "Share of each visit's images by expert, in the order of the stream."
    return Chart("Experts over time", figure, caption, wide=True)


def _route_entropy(run: ShownRun) -> Chart:
    means = mean_by_segment(run.results["routes"], "route_entropy")
    hover = "%{x}: %{y:.3f} nats<extra></extra>"
    marker = dict(color=OTHER_COLORS[0])
    bars = go.Bar(x=[*means], y=[*means.values()], marker=marker, hovertemplate=hover)
    caption = "Entropy of the experts' weights, mean by visit. 0: the router is certain."
    return Chart("Routing entropy", draw([bars], y="nats"), caption)


def _alignment(run: ShownRun) -> list[Chart]:
    experts = (run.results.get("alignment") or {}).get("experts")
    if not experts:
        return []
    deepest = max((expert["strength"] for expert in experts.values()), key=len)
    layers = list(deepest)
    strengths = [
        [sum(expert["strength"].get(name, (0, 0))) / 2 for name in layers]
        for expert in experts.values()
    ]
    names = [f"expert {i} (reach {expert['reach']:g})" for i, expert in experts.items()]
    hover = "%{y}, %{x}: %{z:.0%} of the distance to the source"
    figure = heatmap(strengths, layers, names, hover, height=260)
    figure.update_xaxes(showticklabels=False, title="layers, in the order of the forward pass")
    trials = run.results["alignment"]["events"]
    taken = sum(trial["taken"] for trial in trials)
    caption = (
        "How far each expert moves the feature moments of its domain towards the source's, mean of "
        f"shift and scale. Trials of another reach: {len(trials)}, adopted: {taken}."
    )
    return [Chart("Alignment", figure, caption)]


def _guard(run: ShownRun) -> list[Chart]:
    if run.results.get("guard") is None:
        return []
    events = guard_events(run.results)
    points = go.Scatter(
        x=[event.step for event in events],
        y=[f"expert {event.expert}" for event in events],
        mode="markers",
        marker=dict(size=[6 + 14 * (1 - event.keep) for event in events], color=ALARM, opacity=0.6),
        customdata=[[event.label, event.reason, event.excess, event.keep] for event in events],
        hovertemplate=(
            "batch %{x}, %{customdata[0]}: %{y} %{customdata[1]}, %{customdata[2]:.2f} times the "
            "bound; %{customdata[3]:.0%} of its adaptation kept<extra></extra>"
        ),
    )
    figure = draw([points], "batch", height=260 if events else 110)
    figure.update_xaxes(range=[0, len(run.results["routes"]) + 1])
    figure.update_yaxes(visible=bool(events))
    caption = "No alarm: no expert lost classes, drifted or became overconfident."
    if events:
        caption = (
            f"{len(events)} alarm{'s' * (len(events) > 1)}: an expert lost classes, drifted or "
            "became overconfident, and was pulled back towards the source."
        )
    return [Chart("Guard", figure, caption)]


def _styles(run: ShownRun) -> list[Chart]:
    if run.styles is None or len(run.styles.routes) < FEWEST_STYLES:
        return []
    maps: dict[str, Projection] = {"PCA of styles": "pca", "t-SNE of styles": "tsne"}
    return [
        Chart(title, _style_figure(style_map(run.results, run.styles, projection)), _STYLE_CAPTION)
        for title, projection in maps.items()
    ]


def _style_figure(plane: StyleMap) -> go.Figure:
    traces = []
    for i, (domain, indices) in enumerate(plane.points_by_domain().items()):
        x, y = plane.points[indices].round(3).T.tolist()
        traces.append(
            go.Scatter(
                x=x,
                y=y,
                name=domain,
                mode="markers",
                marker=dict(
                    color=nth_color(DOMAIN_COLORS, i),
                    size=8,
                    opacity=0.8,
                    line=dict(color=GRAY, width=0.5),
                    symbol=[symbol_of(plane.experts[j]) for j in indices],
                ),
                customdata=[[plane.experts[j], plane.rounds[j]] for j in indices],
                hovertemplate=(
                    f"{domain}, round %{{customdata[1]}}: expert %{{customdata[0]}}<extra></extra>"
                ),
            )
        )
    for expert, path in plane.paths.items():
        rounds, x, y = zip(*path, strict=True)
        traces.append(
            go.Scatter(
                x=x,
                y=y,
                mode="lines+markers+text",
                name=f"expert {expert}",
                text=[""] * (len(path) - 1) + [str(expert)],
                textposition="top center",
                customdata=rounds,
                line=dict(color=GRAY, width=1.5),
                marker=dict(color=GRAY, size=5, symbol=symbol_of(expert)),
                hovertemplate=f"mean of expert {expert} after round %{{customdata}}<extra></extra>",
            )
        )
    figure = draw(traces, height=420)
    figure.update_xaxes(showticklabels=False)
    figure.update_yaxes(showticklabels=False)
    return figure


def time_chart(runs: Sequence[ShownRun]) -> list[Chart]:
    """Return the time per image of every run by stage; nothing if it was not measured."""
    times = {run.name: milliseconds_by_stage(run.results) for run in runs}
    stages = list(dict.fromkeys(stage for parts in times.values() for stage in parts))
    if not stages:
        return []
    bars = [
        go.Bar(
            y=list(times),
            x=[parts.get(stage) for parts in times.values()],
            name=stage,
            orientation="h",
            marker=dict(color=nth_color(OTHER_COLORS, i)),
            hovertemplate=f"%{{y}}: {stage} %{{x:.1f}} ms<extra></extra>",
        )
        for i, stage in enumerate(stages)
    ]
    figure = draw(bars, "ms per image", height=130 + 34 * len(runs), barmode="stack")
    figure.update_yaxes(autorange="reversed")
    return [Chart("Time per image", figure, wide=True)]
