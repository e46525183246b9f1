import numpy as np
import pytest
from run_records import rich_record, styles_of

from mmseg_reservoir.report.style_map import style_map
from mmseg_reservoir.runs.style_sample import Styles


@pytest.mark.parametrize("projection", ["pca", "tsne"])
def test_domains_lie_apart_and_means_amid_their_styles(projection):
    results = rich_record()
    found = style_map(results, styles_of(results), projection)
    assert found.points.shape == (18, 2)
    assert found.domains == [route["domain"] for route in results["routes"]]
    night = np.array(found.domains) == "night"
    centres = [found.points[night].mean(axis=0), found.points[~night].mean(axis=0)]
    within = np.linalg.norm(found.points[night] - centres[0], axis=1).max()
    assert np.linalg.norm(centres[0] - centres[1]) > within
    assert {expert: [step[0] for step in path] for expert, path in found.paths.items()} == {
        0: [1, 2, 3],
        1: [1, 2, 3],
    }


def test_the_way_of_a_mean_is_that_of_all_styles_so_far():
    results = rich_record()
    styles = styles_of(results)
    found = style_map(results, styles, "pca")
    night = [i for i, route in enumerate(results["routes"]) if route["expert"] == 1]
    # A projection by PCA is linear: the mean of points is the point of the mean.
    assert found.paths[1][-1][1:] == pytest.approx(found.points[night].mean(axis=0), abs=1e-4)
    assert found.paths[1][0][1:] == pytest.approx(found.points[night[:3]].mean(axis=0), abs=1e-4)


def test_a_sample_knows_its_routes_and_dead_channels_do_not_matter():
    results = rich_record()
    vectors = styles_of(results).vectors[[0, 4, 8, 10, 16]].copy()
    vectors[:, 2] = 7
    found = style_map(results, Styles(vectors, np.array([0, 4, 8, 10, 16])), "pca")
    assert found.domains == [results["routes"][i]["domain"] for i in (0, 4, 8, 10, 16)]
    assert np.isfinite(found.points).all()
