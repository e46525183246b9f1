"""Every config of a classifier loads, says what the paper says, and its published row is right."""

import re
from pathlib import Path

import pytest
from mmengine.config import Config

from mmseg_reservoir.cls.run import check_all, check_keys
from mmseg_reservoir.options import table
from mmseg_reservoir.presets import with_preset
from mmseg_reservoir.report.published import (
    METAFILE,
    find_row,
    load_rows,
    published_table,
    row_of,
    stream_name,
)

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs" / "cls"
PAPER = ROOT.parent / "shared" / "paper" / "reservoirtta_paper.tex"
LEAVES = sorted(CONFIGS.glob("*/*.py"))
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
    ("cifar10c_wrn28", "csc"): "tab:cifar10c-recur-csc",
    ("cifar10c_wrn28", "cdc"): "tab:cifar10c-recur-cdc",
    ("cifar100c_resnext29", "csc"): "tab:cifar100c-recur-csc",
    ("cifar100c_resnext29", "cdc"): "tab:cifar100c-recur-cdc",
    ("imagenetc_resnet50", "csc"): "tab:imagenetc-recur-csc",
    ("imagenetc_resnet50", "cdc"): "tab:imagenetc-recur-cdc",
    ("imagenetc_resnet50gn", "csc"): "tab:imagenetc-recur-csc-gn",
    ("imagenetc_resnet50gn", "cdc"): "tab:imagenetc-recur-cdc-gn",
    ("imagenetc_vit", "csc"): "tab:imagenetc-recur-csc-vit",
    ("imagenetc_vit", "cdc"): "tab:imagenetc-recur-cdc-vit",
    ("ccc_resnet50", "ccc"): "tab:ccc-rn50",
    ("ccc_vit", "ccc"): "tab:ccc-vit",
}
# The table's two exceptions, and prompts, of which it says nothing.
EXCEPTIONS = {
    "cifar10c_wrn28_sar": ("SGD", 1e-3),
    "cifar100c_resnext29_sar": ("SGD", 1e-3),
    "imagenetc_vit_sar": ("SGD", 1e-4),
    "imagenetc_vit_dpcore": ("AdamW", 0.1),
    "imagenetc_vit_vpt": ("AdamW", 0.1),
    "ccc_vit_dpcore": ("AdamW", 0.1),
    "ccc_vit_vpt": ("AdamW", 0.1),
}


def leaf(stem: str) -> Path:
    return CONFIGS / stem.split("_")[0] / f"{stem}.py"


@pytest.mark.parametrize("path", LEAVES, ids=lambda path: path.stem)
def test_leaf_is_complete_and_short(path):
    cfg = Config.fromfile(path).to_dict()
    check_keys(cfg)
    check_all(cfg, seed=0)
    assert cfg["model"]["type"] in table("backbone")
    assert bool(cfg.get("reservoir")) == path.stem.endswith("_reservoir")
    assert cfg["stream"].get("rounds", 20) == 20
    assert len(path.read_text().splitlines()) < 10


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_hyper_parameters_are_the_papers(path):
    cfg = Config.fromfile(path)
    plain = path.stem.removesuffix("_reservoir")
    *setting, batch_size = SETTINGS[plain.rpartition("_")[0]]
    optimizer = cfg.method.optimizer
    assert (optimizer.type, optimizer.lr) == EXCEPTIONS.get(plain, tuple(setting))
    if optimizer.type == "SGD":  # as in the published code
        assert optimizer.momentum == 0.9
        assert optimizer.get("nesterov", False) == (not plain.endswith("_sar"))
    assert cfg.stream.batch_size == batch_size
    assert cfg.source_images.num_images == 2000
    if cfg.get("reservoir"):
        reservoir = with_preset(cfg.reservoir.to_dict())
        assert reservoir["k_max"] == 16
        assert reservoir["memory"]["capacity"] == 1024
        assert reservoir["clustering"]["lr"] == 1e-4
        assert reservoir["calibration"]["batches"] == 1000
        assert reservoir["style"]["weights"] == "torchvision"
        assert cfg.method == Config.fromfile(path.with_name(f"{plain}.py")).method


def test_a_leaf_is_named_after_its_method():
    for path in LEAVES:
        ending = path.stem.removesuffix("_reservoir").rpartition("_")[2]
        method = Config.fromfile(path).method.type
        assert {"cotta": "cotta_images"}.get(ending, ending) == method


def test_every_leaf_has_a_row_and_every_row_a_leaf():
    rows = [row for meta in CONFIGS.glob(f"*/{METAFILE}") for row in load_rows(meta)]
    assert sorted({row.config for row in rows}) == sorted(path.name for path in PUBLISHED)
    assert len({(row.config, row.stream) for row in rows}) == len(rows)
    for row in rows:
        assert ("Reservoir" in row.name) == ("reservoir" in row.config)


def paper() -> str:
    if not PAPER.is_file():
        pytest.skip(f"needs the paper's source, {PAPER}")
    return PAPER.read_text(encoding="utf-8")


def numbered_lines(table: str) -> list[tuple[str, list[float]]]:
    """First cell and numbers of those lines of a table that have a number in every other cell."""
    lines = []
    for line in table.split("\\\\"):
        first, *cells = line.split("&")
        numbers = [re.search(r"\d+\.\d\d", cell) for cell in cells]
        if cells and all(numbers):
            lines.append((first.strip().splitlines()[-1], [float(n[0]) for n in numbers]))
    return lines


def endings(heads: list[str]) -> list[str]:
    """Of the config of each line: a line that begins with + belongs to the method above it."""
    found, above = [], None
    for head in heads:
        words = re.sub(r"\\rowcolor\{.*?\}|\\textit|\$\^\\ast\$|[^A-Za-z+]", "", head).lower()
        if words == "+reservoirtta":
            found.append(f"{above}_reservoir")
        elif words in ("+cola", "vpt+reservoirtta"):
            found.append({"+cola": "cola"}.get(words, "vpt_reservoir"))
        else:
            found.append(above := words)
    return found


@pytest.mark.parametrize(("name", "stream"), TABLES)
def test_transcription_agrees_with_the_paper(name, stream):
    text = paper()
    end = text.index(f"\\label{{{TABLES[name, stream]}}}")
    lines = numbered_lines(text[text.rindex("\\begin{tabular}", 0, end) : end])
    expected = {}
    for ending, (_, [*visits, _mean]) in zip(endings([h for h, _ in lines]), lines, strict=True):
        # The source's number stands once for all visits.
        expected[leaf(f"{name}_{ending}").name] = visits * (20 if len(visits) == 1 else 1)
    rows = load_rows(leaf(f"{name}_source").with_name(METAFILE))
    found = {
        row.config: list(row.scores["mean"].values())
        for row in rows
        if row.stream == stream and re.fullmatch(rf"{name}_[a-z]+(_reservoir)?\.py", row.config)
    }
    assert found == expected


@pytest.mark.parametrize(
    ("label", "stream", "configs"),
    [
        (
            "tab:gradual_cifar",
            "gradual",
            [f"cifar100c_resnext29_{e}" for e in ("source", "eata", "eata_reservoir")],
        ),
        (
            "tab:cifar10c-recur-csc-temporal",
            "csc dirichlet 0.1",
            [f"cifar10c_wrn28_{e}" for e in ("source", "rotta", "rotta_reservoir")],
        ),
    ],
)
def test_transcription_of_tables_in_two_halves(label, stream, configs):
    text = paper()
    start = text.index(f"\\label{{{label}}}")
    halves = text[start : text.index("\\end{table}", start)].split("\\vspace")
    first, second = ([numbers for _, numbers in numbered_lines(half)] for half in halves)
    for stem, one, [*two, _mean] in zip(configs, first, second, strict=False):
        row = find_row(leaf(stem), stream)
        assert list(row.scores["mean"].values()) == one + two


def test_the_published_row_is_that_of_the_stream():
    config = leaf("cifar10c_wrn28_tent")
    csc, cdc = (find_row(config, stream).scores["mean"][20] for stream in ("csc", "cdc"))
    assert csc == 87.84
    assert cdc != csc
    assert find_row(config, "csc dirichlet 0.1") is None
    record = {"kind": "csc", "correlation": 0.1}
    assert stream_name(record) == "csc dirichlet 0.1"
    results = {"config_file": str(leaf("cifar10c_wrn28_rotta")), "stream": record}
    assert row_of(results).scores["mean"][20] == 38.87


def test_a_run_stands_beside_its_published_row():
    row = find_row(leaf("cifar10c_wrn28_tent"), "csc")
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
    row = find_row(leaf(name), "csc")
    assert row.visits == []
    assert published_table([{"round": 1, "domain": "sketch", "error": 30.0}], row) is None
