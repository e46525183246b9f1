import pytest
import torch
from small_net import make_method, make_router
from small_reservoirs import batches, make_pipeline, show

from mmseg_reservoir.core import ReservoirPipeline, SingleModelPipeline
from mmseg_reservoir.core.side_effects import restored, snapshot, without_side_effects
from mmseg_reservoir.routing import SegmentRouter
from mmseg_reservoir.style import StyleEncoder
from mmseg_reservoir.style.calibration import Calibration


def style_reservoir():
    encoder = StyleEncoder("seeded")
    source = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return ReservoirPipeline(make_method(), make_router(encoder(source), 5.0, 4), encoder)


def segment_reservoir():
    encoder = StyleEncoder("seeded")
    drawn = torch.Generator().manual_seed(0)
    styles = [encoder(torch.randn(2, 3, 8, 8, generator=drawn)) for _ in range(40)]
    router = SegmentRouter(k_max=4, run=2).fit(Calibration(torch.stack(styles)))
    return ReservoirPipeline(make_method(), router, encoder)


@pytest.mark.parametrize(
    "make", [lambda: SingleModelPipeline(make_method()), style_reservoir, segment_reservoir]
)
def test_a_stream_goes_on_as_if_nothing_had_been_predicted(make, stream):
    alone, disturbed = make(), make()
    torch.manual_seed(0)
    expected = [(alone.step(x).logits, torch.rand(1)) for x in stream]
    torch.manual_seed(0)
    for x, (logits, drawn) in zip(stream, expected, strict=True):
        assert torch.equal(disturbed.step(x).logits, logits)
        router, values = getattr(disturbed, "router", None), disturbed.method.space.snapshot()
        with without_side_effects(disturbed):
            predicted = [disturbed.infer(other) for other in stream]
            torch.rand(3)
        assert all(outcome.k == predicted[0].k for outcome in predicted)
        assert getattr(disturbed, "router", None) is router
        assert torch.equal(disturbed.method.space.values, values)
        assert torch.equal(torch.rand(1), drawn)


def test_without_it_a_router_would_follow(stream):
    """The test above has something to find."""
    pipeline = segment_reservoir()
    pipeline.step(stream[0])
    before = pipeline.router.state_dict()["shared"]["memory"]["clock"]
    pipeline.infer(stream[1])
    assert pipeline.router.state_dict()["shared"]["memory"]["clock"] == before + 1


def test_all_is_put_back_after_an_error(stream):
    pipeline = style_reservoir()
    router = pipeline.router

    def fail():
        with without_side_effects(pipeline):
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fail()
    assert pipeline.router is router


def test_an_earlier_state_can_be_visited():
    pipeline = make_pipeline("oracle", care=True)
    show(pipeline, ["clear", "dark"])
    (images,) = batches("dark", 1, seed=7)
    early, k = snapshot(pipeline), len(pipeline.reservoir)
    expected = pipeline.infer(images, domain="dark").logits
    show(pipeline, ["dark", "bright"])
    late = pipeline.infer(images, domain="dark").logits
    assert not torch.equal(late, expected)
    with restored(pipeline):
        pipeline.load_state_dict(early)
        assert torch.equal(pipeline.infer(images, domain="dark").logits, expected)
        assert len(pipeline.reservoir) == k
    assert torch.equal(pipeline.infer(images, domain="dark").logits, late)
    assert len(pipeline.reservoir) == k + 1
