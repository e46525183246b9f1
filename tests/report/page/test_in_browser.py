"""The page in headless Chromium, at the width of a desk and of a phone."""

import base64

import pytest
from browser import DESKTOP, PHONE, console_errors, needs_chromium, open_browser
from panel_files import save_panels
from run_records import record, rich_record, styles_of

from mmseg_reservoir.report.page.document import write_page
from mmseg_reservoir.report.shown_run import ShownRun

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    results = rich_record()
    save_panels(results, folder)
    results["also"] = [{"round": r, "domain": "clear", "mIoU": 70.0 - r} for r in (1, 2, 3)]
    runs = [
        ShownRun("TENT", record(method="Tent", rounds=3)),
        ShownRun("TENT + ReservoirTTA", results, styles_of(results)),
    ]
    return write_page(runs, folder / "report.html", pytest.fail)


def opened(driver, page):
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(page.as_uri())
    ready = "return document.documentElement.hasAttribute('data-ready')"
    WebDriverWait(driver, 120).until(lambda d: d.execute_script(ready))
    return driver


def check_figures(driver):
    """Every figure is drawn, within its place, and nothing is wider than the window."""
    assert console_errors(driver) == []
    drawn = driver.execute_script(
        "return [...document.querySelectorAll('.plot')].map(plot => ["
        "  plot.querySelector('.main-svg').getBoundingClientRect().width, plot.clientWidth,"
        "  plot.querySelectorAll('.trace, .hm image, .point').length])"
    )
    assert len(drawn) == 12
    assert all(0 < width <= place for width, place, _ in drawn)
    assert all(count > 0 for *_, count in drawn)
    assert driver.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )


def test_on_a_phone_tables_scroll_in_their_boxes_and_charts_keep_their_legends(page, tmp_path):
    with open_browser(PHONE, tmp_path) as driver:
        opened(driver, page)
        box = "document.querySelector('#overview .scroll')"
        inner, outer, window = driver.execute_script(
            f"return [{box}.scrollWidth, {box}.clientWidth, document.documentElement.scrollWidth]"
        )
        assert inner > outer
        assert window == PHONE[0]
        legends = driver.execute_script(
            "return [...document.querySelectorAll('.legend')].map(legend => ["
            "  legend.getBoundingClientRect().height, legend.getBoundingClientRect().right])"
        )
        assert len(legends) == 7  # 3 of scores, a set beside the stream, 2 of styles, time
        assert all(height > 0 and right <= PHONE[0] for height, right in legends)


@pytest.mark.slow
def test_a_click_on_the_legend_hides_a_line(page, tmp_path):
    from selenium.webdriver.common.by import By

    with open_browser(DESKTOP, tmp_path) as driver:
        opened(driver, page)
        drawn = "return document.querySelectorAll('#overview .plot .scatter').length"
        assert driver.execute_script(drawn) == 2
        entry = driver.find_element(By.CSS_SELECTOR, "#overview .legend button")
        entry.click()
        assert driver.execute_script(drawn) == 1
        entry.click()
        assert driver.execute_script(drawn) == 2


@pytest.mark.slow
def test_every_figure_is_drawn(page, tmp_path):
    with open_browser(DESKTOP, tmp_path) as driver:
        check_figures(opened(driver, page))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "dark"), [(PHONE, False), (DESKTOP, True), (PHONE, True)])
def test_every_figure_is_drawn_on_a_phone_and_in_the_dark(page, tmp_path, size, dark):
    with open_browser(size, tmp_path, dark) as driver:
        check_figures(opened(driver, page))
        ink = "return document.querySelector('.plot .xtick text').style.fill"
        red = int(driver.execute_script(ink).removeprefix("rgb(").partition(",")[0])
        assert (red > 128) == dark  # light text on a dark page


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_sliders_move_the_picture(page, tmp_path, size):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    with open_browser(size, tmp_path) as driver:
        opened(driver, page)

        def seen():
            pictures = driver.find_elements(By.CSS_SELECTOR, ".stage img")
            caption = driver.find_element(By.CSS_SELECTOR, "#gallery .caption").text
            return [p.get_attribute("src") for p in pictures], caption

        pictures, caption = seen()
        labels = "fog, fog_0 · TENT + ReservoirTTA · expert 0, K = 2 · 20 % of pixels wrong"
        assert pictures[0].startswith("data:image/png")
        assert caption == labels
        assert driver.find_element(By.CLASS_NAME, "classes").text.split() == ["road", "car"]
        driver.find_element(
            By.XPATH, "//div[@class='layers']/button[text()='ground truth']"
        ).click()
        assert seen()[1] == "fog, fog_0 · ground truth"
        layer = driver.find_element(By.ID, "layer")
        layer.send_keys(Keys.HOME)
        assert seen()[1] == "fog, fog_0 · image"
        layer.send_keys(Keys.ARROW_RIGHT * 10)  # half way: the label shines through the image
        (below, above), _ = seen()
        assert (below[:15], above[:14]) == ("data:image/jpeg", "data:image/png")
        upper = driver.find_elements(By.CSS_SELECTOR, ".stage img")[1]
        assert float(upper.value_of_css_property("opacity")) == pytest.approx(0.5)
        driver.find_element(By.XPATH, "//div[@class='layers']/button[2]").click()
        last, caption = seen()
        assert caption == labels
        assert driver.find_element(By.ID, "visit-number").text == "3"
        driver.find_element(By.ID, "visit").send_keys(Keys.HOME)
        assert driver.find_element(By.ID, "visit-number").text == "1"
        assert seen()[0] != last
        driver.find_element(By.XPATH, "//div[@class='frames']/button[text()='night']").click()
        assert seen()[1].startswith("night, night_0")
        assert console_errors(driver) == []


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_hovering_shows_values(page, tmp_path, size):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with open_browser(size, tmp_path) as driver:
        opened(driver, page)
        plot = driver.find_element(By.CSS_SELECTOR, "#overview .plot")
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
        point = plot.find_element(By.CSS_SELECTOR, ".point")
        ActionChains(driver).move_to_element(point).perform()
        WebDriverWait(driver, 30).until(
            lambda _: plot.find_elements(By.CSS_SELECTOR, ".hoverlayer .hovertext")
        )
        text = plot.find_element(By.CSS_SELECTOR, ".hoverlayer .hovertext").text
        assert "visit 1: 45.00" in text.replace("\n", " ")


@pytest.mark.slow
def test_it_prints(page, tmp_path):
    with open_browser(DESKTOP, tmp_path) as driver:
        opened(driver, page)
        printed = driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
        assert base64.b64decode(printed).startswith(b"%PDF-")
        assert console_errors(driver) == []
