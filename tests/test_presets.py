import pytest
import torch
from small_net import make_method

from mmseg_reservoir.core import Calibration, DomainResetPipeline, StyleEncoder
from mmseg_reservoir.core.clustering import CLUSTERINGS
from mmseg_reservoir.core.distance import DISTANCES
from mmseg_reservoir.core.expert_init import EXPERT_INITS
from mmseg_reservoir.core.memory import MEMORIES
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.options import construct
from mmseg_reservoir.presets import PRESETS, build_reservoir, with_preset


@pytest.fixture(scope="module")
def make():
    """Build and return a pipeline from the options a user would write."""
    encoder = StyleEncoder("seeded", size=(8, 8))
    torch.manual_seed(3)
    calibration = Calibration(torch.stack([encoder(torch.randn(2, 3, 8, 8)) for _ in range(12)]))

    def make_style(style, options):
        assert not options
        return encoder, calibration, encoder.groups

    def build(**options):
        return construct(
            build_reservoir,
            with_preset(options),
            "reservoir",
            method=make_method(),
            make_style=make_style,
        )

    return build


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_runs(make, stream, preset):
    pipeline = make(preset=preset)
    for x in stream:
        outcome = pipeline.step(x)
    assert torch.isfinite(outcome.logits).all()
    assert outcome.k > 1


def test_presets_differ_where_the_paper_and_its_code_differ(make):
    paper, published = make(preset="paper"), make(preset="published_code")
    assert paper.router.clustering.temperature == pytest.approx(320**0.5)
    assert published.router.clustering.temperature == 1
    assert (paper.predict_after, published.predict_after) == (True, False)
    assert type(paper.router.memory) is MEMORIES["reservoir"]
    assert type(published.router.memory) is MEMORIES["published"]
    assert paper.init is EXPERT_INITS["mi_fresh"]
    assert published.init is EXPERT_INITS["mi"]


VARIANTS = [
    *({"memory": {"type": kind}} for kind in MEMORIES),
    {"memory": {"capacity": 1}},
    *({"clustering": {"type": kind}} for kind in CLUSTERINGS),
    *({"clustering": {"distance": kind}} for kind in DISTANCES),
    *({"pipeline": {"init": kind}} for kind in EXPERT_INITS),
    {"pipeline": {"ensemble": False}},
    {"pipeline": {"progressive": True}},
    {"pipeline": {"type": "reset"}},
    {"calibration": {"quantile": 0.5}},
    {"k_max": 2},
    {"router": {"type": "oracle"}},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_every_ablation_is_one_option(make, stream, options):
    pipeline = make(**options)
    for i, x in enumerate(stream):
        outcome = pipeline.step(x, domain="ab"[i % 2])
    assert torch.isfinite(outcome.logits).all()


def test_options_go_over_the_preset_and_another_type_replaces_its_group():
    merged = with_preset({"preset": "paper", "k_max": 3, "clustering": {"lr": 1.0}})
    assert merged["k_max"] == 3
    assert merged["clustering"]["lr"] == 1.0
    assert merged["clustering"]["temperature"] == "sqrt_d"
    replaced = with_preset({"clustering": {"type": "kmeans"}})
    assert replaced["clustering"] == {"type": "kmeans"}
    assert PRESETS["paper"]["k_max"] == 16


def test_reset_pipeline_starts_anew_in_every_domain(make, stream):
    pipeline = make(pipeline={"type": "reset"}, calibration={"quantile": 0.9})
    assert isinstance(pipeline, DomainResetPipeline)
    source = pipeline.method.space.snapshot()
    starts = []
    adapt = pipeline.method.adapt

    def spy(inputs):
        starts.append(torch.equal(pipeline.method.space.snapshot(), source))
        return adapt(inputs)

    pipeline.method.adapt = spy
    indices = [pipeline.step(x).route.index for x in [*stream[::2], *stream[1::2]]]
    changed = [a != b for a, b in zip([0, *indices], indices, strict=False)]
    assert starts == [c or i == 0 for i, c in enumerate(changed)]
    assert sum(starts) < len(starts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "papre"}, "unknown preset 'papre' .*did you mean 'paper'"),
        ({"memory": {"type": "lifo"}}, "unknown memory 'lifo'.*fifo"),
        ({"memory": {"size": 3}}, "reservoir.memory has no option 'size'"),
        ({"clustering": {"type": "dbscan"}}, "unknown clustering 'dbscan'.*kmeans"),
        ({"clustering": {"type": "kmeans", "lr": 1}}, "reservoir.clustering has no option 'lr'"),
        ({"clustering": {"distance": "l1"}}, "unknown distance 'l1'"),
        ({"router": {"type": "random"}}, "unknown router 'random'"),
        ({"pipeline": {"type": "single"}}, "unknown pipeline 'single'"),
        ({"pipeline": {"init": "top5"}}, "unknown initialisation of experts 'top5'.*top3"),
        ({"kmax": 3}, "reservoir has no option 'kmax' .*did you mean 'k_max'"),
    ],
)
def test_a_typo_lists_what_is_valid(make, options, message):
    with pytest.raises(ReservoirError, match=message):
        make(**options)
