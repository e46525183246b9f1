import base64
import gzip
import json
import re

import pytest
from panel_files import save_panels
from plotly.offline import get_plotlyjs
from run_records import record, rich_record, styles_of

from mmseg_reservoir.report.page.document import render, write_page
from mmseg_reservoir.report.shown_run import ShownRun


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    results = rich_record(config_file="own/tent_reservoir.py")
    save_panels(results, tmp_path_factory.mktemp("run"))
    base = record(method="Tent", rounds=3, score=49.0)
    evil = "</script><script>alert(1)</script> & R"
    return [ShownRun("TENT", base), ShownRun(evil, results, styles_of(results))]


@pytest.fixture(scope="module")
def page(runs):
    return render(runs, pytest.fail)


def test_the_page_needs_no_network(page):
    # Outside of Plotly's own script, which the policy below keeps from loading anything.
    rest = re.sub(r'id="plotly">.*?</script>', "", page, flags=re.DOTALL)
    assert len(rest) < len(page) - 1e6
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", rest)
    assert "default-src 'none'" in page


def test_the_script_that_draws_is_whole_and_the_page_small(page):
    packed = re.search(r'id="plotly">(.*?)</script>', page, re.DOTALL)[1]
    assert gzip.decompress(base64.b64decode(packed)).decode() == get_plotlyjs()
    assert len(page) < 2.2e6


def test_the_page_opens_with_its_conclusion(page):
    heading = re.search(r"<h1>(.*?)</h1>", page)[1]
    assert heading.startswith("With the reservoir (&lt;/script&gt;")
    assert heading.endswith("the mean mIoU rises from 43.0 (TENT) to 44.0.")
    places = [page.index(text) for text in ("<h1>", 'data-figure="0"', "<table>")]
    assert places == sorted(places)


def test_every_chart_of_several_lines_has_its_legend(page):
    entries = re.findall(r'data-trace="\d+">.*?</svg>(.*?)</button>', page, re.DOTALL)
    assert entries.count("TENT") == 3  # the mean and two domains
    assert entries.count("expert 1") == 2  # PCA and t-SNE


def test_every_chart_has_a_place_and_a_figure(page):
    places = re.findall(r'class="plot" data-figure="(\d+)"', page)
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])
    assert list(map(int, places)) == list(range(len(figures)))
    assert len(figures) == 3 + 1 + 4 + 2 + 1  # scores, classes, routing, styles, time


def test_names_are_text_and_never_markup(page):
    assert "alert(1)</script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; R" in page


def test_tables_have_differences_and_losses(page):
    text = re.sub(r"\s+", " ", page)
    assert '50.00<small class="good">+1.00</small>' in text
    assert "Differences to TENT." in page
    assert re.search(r"night</td><td>40.00</td><td>1</td><td>38.00</td><td>2.00</td>", text)


def test_readers_without_scripts_learn_what_is_missing(page):
    assert "The charts of this page need JavaScript." in page


def test_what_was_run_is_told(page):
    for text in ("tent_reservoir.py", "preset robust", "&#34;quantile&#34;: 0.9", "torch 2.0"):
        assert text in page


def test_classifiers_have_a_page_too(tmp_path):
    visits = [
        {"round": r, "domain": "fog", "error": 10.0 + r, "n_images": 5, "k": 1} for r in (1, 2)
    ]
    results = record(visits=visits, options={}, complete=False)
    path = write_page([ShownRun("EATA", results)], tmp_path / "new" / "report.html", pytest.fail)
    page = path.read_text(encoding="utf-8")
    assert "error by domain and visit" in page
    assert "lower is better" in page
    assert "not complete" in page
    assert 'id="gallery"' not in page
    assert "<title>EATA</title>" in page


def test_a_run_without_labels_has_a_page_that_says_so():
    results = rich_record()
    for visit in results["visits"]:
        visit["mIoU"] = None
    page = render([ShownRun("R", results)], pytest.fail)
    assert "<h1>R has no scores: there were no labels. 18 images, 2 experts.</h1>" in page
    assert "NaN" not in re.sub(r'id="plotly">.*?</script>', "", page, flags=re.DOTALL)
