"""The live page with a real server and a real browser."""

import threading
import time
from urllib.request import urlopen

import pytest
import uvicorn
from browser import DESKTOP, PHONE, console_errors, needs_chromium, open_browser

from mmseg_reservoir.live.server import make_app

pytestmark = needs_chromium
LAPTOP = (1280, 720)
ALARMED = {"alarms": 2, "trust": 0.25, "reach": 0.5, "aligned": 24}


@pytest.fixture
def address(worker):
    config = uvicorn.Config(make_app(worker, "secret"), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


def test_on_a_laptop_timeline_and_buttons_are_above_the_fold(address, stream, until, tmp_path):
    with open_browser(LAPTOP, tmp_path) as driver:

        def text(name):
            return driver.find_element("id", name).text

        stream.step(1, size=(540, 960), number=7, confidence=0.875, state=ALARMED)
        driver.get(f"{address}/#secret")
        until(lambda: text("frame") == "7")
        width = "return document.getElementById('picture').naturalWidth"
        until(lambda: driver.execute_script(width) == 960)
        for name in ("timeline", "legend", "pause", "save", "reset", "classes"):
            bottom = "return document.getElementById(arguments[0]).getBoundingClientRect().bottom"
            assert 0 < driver.execute_script(bottom, name) <= LAPTOP[1], name
        shown = [text(name) for name in ("name", "total", "expert", "k", "confidence")]
        assert shown == ["drive", "of 40", "1", "2", "88 %"]
        assert text("alarm") == "2 alarms, 25 % of updates kept"
        assert text("alignment") == "reach 0.5 by 24 images"
        assert text("classes").split() == ["road", "car"]
        stream.step(0, number=8)
        until(lambda: text("alarm") == "not watched")
        assert (text("alignment"), text("confidence")) == ("none", "-")
        assert console_errors(driver) == []


def test_without_the_key_of_the_address_the_buttons_rest(address, stream, until, tmp_path):
    with open_browser(PHONE, tmp_path) as driver:
        driver.get(address)
        assert not driver.find_element("id", "pause").is_enabled()
        assert "its end is the key" in driver.find_element("id", "answer").text


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_it_shows_frames_and_acts_and_survives_a_closed_tab(
    address, worker, stream, until, tmp_path, size
):
    from selenium.webdriver.common.by import By

    with open_browser(size, tmp_path) as driver:

        def text(name):
            return driver.find_element(By.ID, name).text

        stream.step(0)
        until(lambda: worker.state()["frame"] == 1)
        driver.get(f"{address}/#secret")
        until(lambda: text("frame") == "1")
        stream.step(1, opened=True)
        until(lambda: (text("frame"), text("expert"), text("k")) == ("2", "1", "2"))
        until(lambda: "expert 1 is new" in text("messages"))
        width = "return document.getElementById('picture').naturalWidth"
        until(lambda: driver.execute_script(width) == 64)
        painted = (
            "const c = document.getElementById('timeline');"
            "return [...c.getContext('2d').getImageData(2, 5, 1, 1).data]"
        )
        assert driver.execute_script(painted)[3] == 255
        driver.find_element(By.ID, "pause").click()
        driver.find_element(By.ID, "save").click()
        until(lambda: worker._actions.qsize() == 2)
        stream.step(1)
        until(lambda: text("status") == "adaptation paused")
        assert [name for name, _ in stream.asked] == ["pause", "save"]
        assert driver.execute_script(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
        assert console_errors(driver) == []
    stream.step(0)  # nobody looks
    until(lambda: worker.state()["frame"] == 4)
    with urlopen(f"{address}/state") as answer:
        assert answer.status == 200
