"""The recorded runs again, as a user of the classification adapter would run them."""

from parity_trace import build_classifier, runs

QUICK = ("tent_BN", "tent_reservoirtta_BN", "eata_reservoirtta_BN", "roid_reservoirtta_BN")


@runs(slow_but=QUICK)
def test_the_adapter_reproduces_every_run(run, book):
    model = build_classifier(run, book)
    for step, images in enumerate(run.batches()):
        logits = model(images)
        recorded = run.trace["step.logits"][step][: len(logits)]
        assert float((logits - recorded).abs().max()) < 1e-3
        if run.has_reservoir:
            assert model.last.route.index == int(run.trace["step.model_idx"][step])
            assert model.last.k == int(run.trace["step.K"][step])
