from functools import partial

import pytest
import torch
from torch import nn

from mmseg_reservoir.build import SEGMENTATION, Plan, Workplace
from mmseg_reservoir.core.image_range import ImageRange
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Tent
from mmseg_reservoir.spaces import ParamSpace, Statistics, norm_affine
from mmseg_reservoir.spaces.share_search import SHARES, ShareSearch


class Judged:
    """A model of two classes whose doubt and mirror symmetry depend on the share."""

    def __init__(self, share, doubts, torn=()):
        self.share, self.doubts, self.torn = share, doubts, torn
        self.calls = 0

    def __call__(self, images):
        self.calls += 1
        i = SHARES.index(round(float(self.share), 2))
        logits = torch.zeros(len(images), 2, *images.shape[-2:])
        logits[:, 0] = 1 / self.doubts[i]
        if i in self.torn:  # the left half, whatever is seen there: its mirror image disagrees
            logits[..., : images.shape[-1] // 2] = -logits[..., : images.shape[-1] // 2]
        return logits


def search_with(doubts, torn=(), batches=4):
    share = torch.zeros(1)
    model = Judged(share, doubts, torn)
    return ShareSearch(share, batches=batches), model


def test_the_surest_share_is_taken():
    search, model = search_with([1.0, 0.8, 0.5, 0.9, 1.2])
    search.look(model, torch.zeros(1, 3, 4, 8), {})
    assert float(search.share) == pytest.approx(0.06)


def test_a_share_that_agrees_less_with_its_mirror_image_is_not():
    search, model = search_with([1.0, 0.8, 0.5, 0.9, 1.2], torn=(2,))
    search.look(model, torch.zeros(1, 3, 4, 8), {})
    assert float(search.share) == pytest.approx(0.03)
    search, model = search_with([1.0, 0.8, 0.5, 0.9, 0.1], torn=(1, 2, 3, 4))
    search.look(model, torch.zeros(1, 3, 4, 8), {})
    assert float(search.share) == 0.0


def test_evidence_of_the_first_batches_of_a_domain_adds_up_and_then_it_stays():
    search, model = search_with([1.0, 0.8, 0.5, 0.9, 1.2], batches=2)
    state = {}
    search.look(model, torch.zeros(1, 3, 4, 8), state)
    model.doubts = [1.0, 0.05, 2.0, 0.9, 1.2]  # far surer at 3 %: outweighs the first batch
    search.look(model, torch.zeros(1, 3, 4, 8), state)
    assert float(search.share) == pytest.approx(0.03)
    assert model.calls == 2 * 2 * len(SHARES)
    search.share.fill_(0.2)  # another domain's, say
    search.look(model, torch.zeros(1, 3, 4, 8), state)
    assert model.calls == 2 * 2 * len(SHARES)
    search.look(model, torch.zeros(1, 3, 4, 8), {})  # a new domain is looked at
    assert model.calls == 3 * 2 * len(SHARES)


def small_net():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 3, 1))
    return net.eval()


def test_the_share_is_a_number_of_the_expert_and_none_at_first():
    net, plain, x = small_net(), small_net(), torch.randn(2, 3, 6, 6)
    statistics = Statistics.of("searched", "running")
    statistics.apply(net)
    space = ParamSpace(net, norm_affine(net))
    search = statistics.carry(space)
    assert space.names[-1] == "statistics.share"
    assert space.adapting == len(space) - 1
    torch.testing.assert_close(net(x), plain(x))
    source = space.snapshot()
    search.share.fill_(0.5)
    blended = net(x)
    assert (blended - plain(x)).abs().max() > 1e-3
    expert = space.snapshot()
    space.load(source)
    torch.testing.assert_close(net(x), plain(x))
    space.load(expert)
    torch.testing.assert_close(net(x), blended)
    method = Tent(net, space, partial(torch.optim.Adam, lr=0.1))
    method.adapt(x)
    assert float(search.share) == 0.5  # no step of the optimizer moves it


def test_a_plan_lets_every_expert_search(monkeypatch):
    looks = []
    monkeypatch.setattr(ShareSearch, "look", lambda self, *args: looks.append(args[2]))
    options = dict(preset="published", router=dict(type="oracle"))
    plan = Plan(
        SEGMENTATION,
        method="tent",
        params=dict(under=""),
        statistics="searched",
        reservoir=options,
    )
    assert plan.options["statistics"] == {"share": 0.0, "per_expert": False, "searched": True}
    place = Workplace(small_net(), lambda net, x: net(x), ImageRange("imagenet"))
    pipeline = plan.assemble(place)
    for domain in ("fog", "night", "fog"):
        pipeline.step(torch.randn(1, 3, 6, 6), domain=domain)
    assert looks[0] is looks[2]
    assert looks[0] is not looks[1]


def test_a_share_cannot_be_given_and_searched():
    with pytest.raises(ReservoirError, match="a share that is searched cannot be given"):
        Statistics(share=0.1, searched=True)
    with pytest.raises(ReservoirError, match=r"did you mean 'searched'.*"):
        Statistics.of("serched", "running")
