import logging

import pytest

from mmseg_reservoir.seg.quiet_runner import FILE_ONLY, _is_for_terminals, log_to_file


@pytest.fixture
def logger(tmp_path):
    logger = logging.Logger("quiet", logging.INFO)
    logger.addHandler(logging.FileHandler(tmp_path / "run.log"))
    logger.addHandler(logging.StreamHandler())
    logger.handlers[1].addFilter(_is_for_terminals)
    return logger


def test_pages_are_for_the_file(logger, tmp_path, capsys):
    logger.handlers[1].setStream(__import__("sys").stderr)
    logger.info("a line")
    logger.info("many lines", extra=FILE_ONLY)
    log_to_file(logger, "the bar shows this")
    assert capsys.readouterr().err == "a line\n"
    assert (tmp_path / "run.log").read_text() == "a line\nmany lines\nthe bar shows this\n"


@pytest.mark.parametrize(
    ("module", "function", "shown"),
    [
        ("runner", "_log_env", False),
        ("runner", "__init__", False),
        ("runner", "wrap_model", False),
        ("runner", "load_checkpoint", True),
        ("loop", "__init__", True),
    ],
)
def test_mmengine_begins_with_pages(module, function, shown):
    record = logging.LogRecord("x", logging.INFO, f"{module}.py", 1, "text", (), None, function)
    assert _is_for_terminals(record) == shown
