import json
import time
from functools import partial

import pytest
import torch
from small_net import make_net

from benchmarks.speed import growth, page, ratios
from benchmarks.speed.cases import Case
from benchmarks.speed.interleaved import Spread, interleave, over
from benchmarks.speed.naive import LiteralCotta, PlainVGG
from benchmarks.speed.split import STAGES, timed
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Cotta
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.style import StyleEncoder

CASE = Case("tent", "resnet20", "batch2")


def test_every_contestant_sees_an_input_before_the_next_comes():
    seen = []
    steps = {name: partial(lambda name, x: seen.append((name, x)), name) for name in "ab"}
    times = interleave(steps, [1, 2], iter(range(8)).__next__)
    assert seen == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]
    assert over(times, "a", "b") == [1, 1]


def test_a_spread_is_named_flat():
    assert Spread.of([1.0, 2, 3, 4, 5]).named("ratio/x") == {
        "ratio/x": 3,
        "ratio/x/q1": 2,
        "ratio/x/q3": 4,
    }
    assert Spread.of([7.0]) == (7, 7, 7)


@pytest.mark.parametrize("variant", ["published", "stream", "robust"])
def test_a_reservoir_has_as_many_experts_as_asked_for(variant):
    pipeline = CASE.reservoir(variant, k=3)
    assert len(pipeline.reservoir) == pipeline.router.k == 3
    outcomes = [pipeline.step(x) for x in CASE.inputs(3)]
    assert outcomes[-1].route.index != 0  # the stream visits a style that is not the source's
    assert outcomes[-1].k == 3


def test_the_parts_of_a_step_are_timed_and_the_timers_go_away():
    pipeline = CASE.reservoir("published", k=2)
    with timed(pipeline, time.perf_counter) as watch:
        pipeline.step(CASE.inputs(1)[0])
    for part in ("style", "route", "check-out", "forward", "backward", "step", "commit"):
        assert watch.seconds[part] > 0, part
    before = dict(watch.seconds)
    pipeline.step(CASE.inputs(1)[0])
    assert watch.seconds == before


def test_ratios_are_named_by_what_was_measured():
    found = ratios.compare(CASE, ["robust", "naive"], 2, 1, time.perf_counter)
    for name in ("ratio", "ratio-without-probes", "second-passes", "naive-over"):
        assert f"{name}/tent/resnet20/batch2/k2/robust" in found
    assert {f"split/tent/resnet20/batch2/{part}" for part in STAGES} <= set(found)
    assert found["second-passes/tent/resnet20/batch2/k2/robust"] == 0
    assert all(isinstance(value, float | int) for value in found.values())


def test_views_one_by_one_are_the_same_cotta():
    image = torch.randn(1, 3, 8, 12, generator=torch.Generator().manual_seed(3))
    said = []
    for kind in (Cotta, LiteralCotta):
        net = make_net()
        method = kind(net, ParamSpace(net, norm_affine(net)), partial(torch.optim.Adam, lr=1e-3))
        said.append([method.adapt(image).softmax(1) for _ in range(2)][-1])
    torch.testing.assert_close(*said, atol=1e-5, rtol=0)


def test_the_naive_style_is_the_same_style():
    encoder = StyleEncoder(statistic="logvar")
    images = torch.randn(2, 3, 32, 48, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(PlainVGG(encoder)(images), encoder(images), atol=1e-5, rtol=1e-5)


def test_growth_is_relative_to_the_smallest():
    found = growth.with_experts((2, 3), 3, time.perf_counter)
    assert found["growth/route/stream/k2-over-k2"] == 1
    assert found["milliseconds/route/published/k3"] > 0


def test_a_page_gets_its_tables_and_keeps_its_words(tmp_path):
    figures = {"about/cpu": "X", **Spread(1.04, 1.03, 1.06).named("ratio/tent/net/8x8/k4/stream")}
    figures |= {"split/tent/net/8x8/k4/stream/style": 0.03, "bytes/expert/net": 12}
    figures |= Spread(1.8, 1.7, 1.9).named("ratio/cotta/net/8x8/literal-over-ours")
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    for _ in range(2):
        page.update(document, json.loads(json.dumps(figures)), tmp_path / "speed.png")
    text = document.read_text()
    assert "1.04 (1.03-1.06)" in text
    assert "old" not in text
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert text.count("cpu: X") == 1
    assert (tmp_path / "speed.png").is_file()
    document.write_text("no marks")
    with pytest.raises(ReservoirError, match="has no lines"):
        page.update(document, figures, tmp_path / "speed.png")
