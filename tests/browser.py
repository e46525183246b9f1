"""Headless Chromium for tests of pages; where it is not installed they skip and say why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

DESKTOP, PHONE = (1280, 900), (390, 844)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
_MISSING = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
needs_chromium = pytest.mark.skipif(
    bool(_MISSING), reason=f"no {' and no '.join(_MISSING)} here: apt install chromium-driver"
)


@contextmanager
def open_browser(size: tuple[int, int], profile: Path, dark: bool = False) -> Iterator[Chrome]:
    """A browser with a window of that size in CSS pixels, and a profile of its own."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(120)
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        yield driver
    finally:
        driver.quit()


def console_errors(driver: Chrome) -> list[str]:
    """What the page complained about."""
    return [line["message"] for line in driver.get_log("browser") if line["level"] == "SEVERE"]
