"""Every config of a classifier loads, says what the paper says, and its published row is right."""

import re
from pathlib import Path

import pytest
from mmengine.config import Config

from mmseg_reservoir.cls.backbones import BACKBONES
from mmseg_reservoir.cls.build import OPTIMIZERS
from mmseg_reservoir.cls.datasets import DATASETS, SOURCES
from mmseg_reservoir.cls.run import check_keys
from mmseg_reservoir.cls.streams import STREAMS
from mmseg_reservoir.methods import find_method
from mmseg_reservoir.report.published import METAFILE, find_row, load_rows, published_table
from mmseg_reservoir.spaces import SPACES

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs" / "cls"
PAPER = ROOT.parent / "shared" / "paper" / "reservoirtta_paper.tex"
LEAVES = sorted(CONFIGS.glob("*.py"))
PUBLISHED = sorted(path for path in LEAVES if not path.stem.startswith("digits"))
# The paper's table of hyper-parameters: optimizer, learning rate, batch size.
SETTINGS = {
    "cifar10c_wrn28": ("Adam", 1e-3, 200),
    "cifar100c_resnext29": ("Adam", 1e-3, 200),
    "imagenetc_resnet50": ("SGD", 2.5e-4, 64),
    "imagenetc_vit": ("SGD", 2.5e-4, 64),
    "imagenetc_resnet50gn": ("SGD", 2.5e-4, 64),
    "ccc_resnet50": ("SGD", 2.5e-4, 64),
    "ccc_vit": ("SGD", 1e-4, 64),
    "domainnet126_resnet50": ("SGD", 2.5e-4, 128),
    "pacs_resnet50": ("Adam", 1e-3, 64),
}
TABLES = {
    "cifar10c_wrn28": "tab:cifar10c-recur-csc",
    "cifar100c_resnext29": "tab:cifar100c-recur-csc",
    "imagenetc_resnet50": "tab:imagenetc-recur-csc",
    "imagenetc_resnet50gn": "tab:imagenetc-recur-csc-gn",
    "imagenetc_vit": "tab:imagenetc-recur-csc-vit",
    "ccc_resnet50": "tab:ccc-rn50",
    "ccc_vit": "tab:ccc-vit",
}
ENDINGS = ("source", "tent", "tent_reservoir", "eata", "eata_reservoir")


@pytest.mark.parametrize("path", LEAVES, ids=lambda path: path.stem)
def test_leaf_is_complete_and_short(path):
    cfg = Config.fromfile(path).to_dict()
    check_keys(cfg)
    assert cfg["data"]["type"] in DATASETS
    assert cfg["model"]["type"] in BACKBONES
    assert cfg["stream"]["type"] in STREAMS
    assert cfg["source"]["type"] in SOURCES
    assert cfg["optimizer"]["type"] in OPTIMIZERS
    assert cfg["params"]["type"] in SPACES
    assert "images" in find_method(cfg["method"]["type"]).handles
    assert bool(cfg.get("reservoir")) == path.stem.endswith("_reservoir")
    assert cfg["stream"].get("rounds", 20) == 20
    assert len(path.read_text().splitlines()) < 8


@pytest.mark.parametrize("name", SETTINGS)
def test_hyper_parameters_are_the_papers(name):
    for ending in ENDINGS:
        cfg = Config.fromfile(CONFIGS / f"{name}_{ending}.py")
        found = (cfg.optimizer.type, cfg.optimizer.lr, cfg.stream.batch_size)
        assert found == SETTINGS[name]
        assert cfg.source.num_images == 2000
        if cfg.get("reservoir"):
            assert cfg.reservoir.k_max == 16
            assert cfg.reservoir.memory.capacity == 1024
            assert cfg.reservoir.clustering.lr == 1e-4


def test_every_leaf_has_a_row_and_every_row_a_leaf():
    rows = load_rows(CONFIGS / METAFILE)
    assert sorted(row.config for row in rows) == [path.name for path in PUBLISHED]
    for row in rows:
        assert ("Reservoir" in row.name) == ("reservoir" in row.config)


def paper_table(name: str) -> list[tuple[str, list[float]]]:
    """First cell and numbers of the lines of a table, without their average."""
    if not PAPER.is_file():
        pytest.skip(f"needs the paper's source, {PAPER}")
    text = PAPER.read_text(encoding="utf-8")
    end = text.index(f"\\label{{{TABLES[name]}}}")
    table = text[text.rindex("\\begin{tabular}", 0, end) : end]
    lines = []
    for line in table.split("\\\\"):
        first, *cells = line.split("&")
        numbers = [re.search(r"\d+\.\d\d", cell) for cell in cells]
        if cells and all(numbers):
            times = 20 if len(cells) == 2 else 1  # the source's number stands once for all visits
            values = [float(n[0]) for n in numbers[:-1]] * times
            lines.append((first.split("}")[-1 if "rowcolor" in first else 0], values))
    return lines


@pytest.mark.parametrize("name", TABLES)
def test_transcription_agrees_with_the_paper(name):
    lines = paper_table(name)
    heads = [re.sub(r"[^A-Za-z]", "", first.split("\n")[-1]).lower() for first, _ in lines]
    for method in ("source", "tent", "eata"):
        at = heads.index(method)
        row = find_row(CONFIGS / f"{name}_{method}.py")
        assert list(row.scores["mean"].values()) == lines[at][1]
        if method != "source":
            plug_in = next(i for i in range(at + 1, len(heads)) if "reservoir" in heads[i])
            row = find_row(CONFIGS / f"{name}_{method}_reservoir.py")
            assert list(row.scores["mean"].values()) == lines[plug_in][1]


def test_a_run_stands_beside_its_published_row():
    row = find_row(CONFIGS / "cifar10c_wrn28_tent.py")
    visits = [
        {"round": r, "domain": d, "error": e}
        for r, errors in ((1, (18.0, 22.0)), (2, (20.0, 24.0)))
        for d, e in zip(("fog", "snow"), errors, strict=True)
    ]
    table = published_table(visits, row)
    lines = [[c.strip() for c in line.split("│")[1:-1]] for line in table.splitlines()]
    assert ["mean", "ours", "20.00", "22.00"] in lines
    assert ["", "published", "19.28", "23.63"] in lines
    assert ["", "difference", "+0.72", "-1.63"] in lines


@pytest.mark.parametrize("name", ["domainnet126_resnet50_eata", "pacs_resnet50_eata"])
def test_rows_without_visits_give_no_table(name):
    row = find_row(CONFIGS / f"{name}.py")
    assert row.visits == []
    assert published_table([{"round": 1, "domain": "sketch", "error": 30.0}], row) is None
