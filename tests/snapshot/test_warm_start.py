"""A classifier that starts from a saved reservoir."""

import pytest
import torch
from small_net import make_classifier

from mmseg_reservoir.cls import AdaptiveClassifier
from mmseg_reservoir.config.builder import CLASSIFICATION, RunBuilder
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.snapshot import save_reservoir


def test_it_starts_from_a_saved_reservoir_without_source_images(tmp_path):
    options = dict(preset="published", style=dict(weights="seeded"), router=dict(quantile=0.5))
    source = [torch.rand(4, 3, 16, 16) for _ in range(50)]
    eata = dict(type="eata", margin=9.0, d_margin=2.0)
    model = AdaptiveClassifier(make_classifier(), eata, options, source)
    for images in [source[0], source[1] / 9, source[2] / 9]:
        model(images)
    folder = save_reservoir(model.pipeline, tmp_path / "saved", model.plan.options)
    warm = AdaptiveClassifier(make_classifier(), eata, {**options, "start_from": str(folder)})
    assert not warm.waits_for_source
    assert torch.equal(warm.calibration.styles, model.calibration.styles)
    assert torch.equal(warm(source[3] / 9), model(source[3] / 9))
    assert warm.last.route.index == 1

    frozen = {**options, "start_from": str(folder), "frozen": True}
    still = AdaptiveClassifier(make_classifier(), eata, frozen)
    before = still.pipeline.reservoir.experts.clone()
    for images in [source[4] / 9, 5 * source[5] - 2]:
        still(images.clamp(0, 1))
    assert torch.equal(still.pipeline.reservoir.experts, before)
    assert still.last.k == 2
    assert still.method.counts["updates"] == 0


def test_options_of_the_start_are_checked_before_anything_is_read(tmp_path):
    def plan(**options):
        return RunBuilder(CLASSIFICATION, "tent", reservoir=options)

    with pytest.raises(ReservoirError, match=r"nowhere is not a saved reservoir: it has no"):
        plan(start_from=str(tmp_path / "nowhere"))
    with pytest.raises(ReservoirError, match=r"name its folder, reservoir\.start_from"):
        plan(frozen=True)
    with pytest.raises(ReservoirError, match=r"reservoir\.start_from must be a string, or None"):
        plan(start_from=3)
    with pytest.raises(ReservoirError, match=r"did you mean 'start_from'"):
        plan(start_form="x")
    assert plan().options["reservoir"]["start_from"] is None
    assert plan().needs_calibration
