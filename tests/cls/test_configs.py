"""Every row of every table of classifiers says what the paper says, and what is published of it."""

import os
import re
from pathlib import Path

import pytest
from mmengine.config import Config

from mmseg_reservoir.cls.rows import choose_row, row_label
from mmseg_reservoir.cls.run import check_all, check_keys
from mmseg_reservoir.config.presets import with_preset
from mmseg_reservoir.registry import table
from mmseg_reservoir.report.published import (
    METAFILE,
    find_row,
    load_rows,
    row_of,
    stream_name,
)
from mmseg_reservoir.report.tables import published_table

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs" / "cls"
PAPER = os.environ.get("RESERVOIR_PAPER")
TABLES = {path.stem: Config.fromfile(path).to_dict() for path in sorted(CONFIGS.glob("*.py"))}
ROWS = [(table, row) for table, config in TABLES.items() for row in config["rows"]]
PUBLISHED = [(table, row) for table, row in ROWS if not table.startswith("digits")]
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
IN_PAPER = {
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
    ("cifar10c_wrn28", "sar"): ("SGD", 1e-3),
    ("cifar100c_resnext29", "sar"): ("SGD", 1e-3),
    ("imagenetc_vit", "sar"): ("SGD", 1e-4),
    ("imagenetc_vit", "dpcore"): ("AdamW", 0.1),
    ("imagenetc_vit", "vpt"): ("AdamW", 0.1),
    ("ccc_vit", "dpcore"): ("AdamW", 0.1),
    ("ccc_vit", "vpt"): ("AdamW", 0.1),
}


def file(table: str) -> Path:
    return CONFIGS / f"{table}.py"


@pytest.mark.parametrize(("table_name", "row"), ROWS)
def test_a_row_is_complete(table_name, row):
    for with_reservoir in (False, True):
        options = choose_row(TABLES[table_name], row, with_reservoir)
        check_keys(options)
        check_all(options, seed=0)
        assert options["model"]["type"] in table("backbone")
        assert options["stream"].get("rounds", 20) == 20
        assert options["method"]["type"] == {"cotta": "cotta_images"}.get(row, row)
        assert bool(options.get("reservoir")) == with_reservoir


@pytest.mark.parametrize(("table_name", "row"), PUBLISHED)
def test_hyper_parameters_are_the_papers(table_name, row):
    options = choose_row(TABLES[table_name], row, with_reservoir=True)
    *setting, batch_size = SETTINGS[table_name]
    optimizer = options["method"]["optimizer"]
    expected = EXCEPTIONS.get((table_name, row), tuple(setting))
    assert (optimizer["type"], optimizer["lr"]) == expected
    if optimizer["type"] == "SGD":  # as in the published code
        assert optimizer["momentum"] == 0.9
        assert optimizer.get("nesterov", False) == (row != "sar")
    assert options["stream"]["batch_size"] == batch_size
    assert options["source_images"]["num_images"] == 2000
    reservoir = with_preset(options["reservoir"])
    assert reservoir["k_max"] == 16
    assert reservoir["memory"]["capacity"] == 1024
    assert reservoir["clustering"]["lr"] == 1e-4
    assert reservoir["calibration"]["batches"] == 1000
    assert reservoir["style"]["weights"] == "torchvision"


RUNTIME = {
    "statistics": None,
    "randomness": {"seed": 0},
    "device": None,
    "work_dir": None,
    "saving": {"minutes": 10.0},
}
PAPERS = {
    "preset": "published",
    "style": {"weights": "torchvision"},
    "calibration": {"batches": 1000},
}
PROMPTS = {"type": "AdamW", "lr": 0.1, "weight_decay": 1e-5}
IN_FULL = {
    ("cifar10c_wrn28", "sar_reservoir"): {
        **RUNTIME,
        "data": {"type": "cifar10c", "root": "data/CIFAR-10-C", "severity": 5},
        "model": {"type": "wrn28_10", "checkpoint": "checkpoints/cifar10_standard.pt"},
        "method": {"type": "sar", "optimizer": {"type": "SGD", "lr": 1e-3, "momentum": 0.9}},
        "params": {"type": "norm_affine"},
        "reservoir": PAPERS,
        "stream": {"type": "csc", "rounds": 20, "batch_size": 200},
        "source_images": {
            "type": "cifar10",
            "root": "data/cifar-10-batches-bin",
            "num_images": 2000,
        },
    },
    ("ccc_vit", "dpcore"): {
        **RUNTIME,
        "data": {
            "type": "ccc",
            "root": "data/CCC",
            "baseline": 20,
            "speed": 1000,
            "run_seed": 43,
        },
        "model": {"type": "vit_b16", "pretrained": True},
        "method": {"type": "dpcore", "limit": 2000, "optimizer": PROMPTS},
        "params": {"type": "prompt", "count": 8},
        "stream": {"type": "ccc", "batch_size": 64, "interval": 6700, "limit": 80400},
        "source_images": {
            "type": "image_folder",
            "root": "data/imagenet/train",
            "num_images": 2000,
        },
    },
    ("digits_vit", "vpt_robust"): {
        **RUNTIME,
        "data": {
            "type": "digits",
            "corruptions": [
                "gaussian_noise",
                "impulse_noise",
                "snow",
                "fog",
                "contrast",
                "pixelate",
            ],
            "severity": 5,
        },
        "model": {"type": "digits_vit", "pretrained": True},
        "method": {"type": "vpt", "optimizer": PROMPTS},
        "params": {"type": "prompt", "count": 8},
        "reservoir": {
            "preset": "robust",
            "style": {"size": (16, 16), "crop": None},
            "calibration": {"batches": 100},
        },
        "stream": {"type": "csc", "rounds": 20, "batch_size": 50, "shuffle": "visit"},
        "source_images": {"type": "digits", "num_images": 1597},
    },
}
PARTS = {
    ("cifar10c_wrn28", "eata"): {
        "type": "eata",
        "d_margin": 0.4,
        "fisher_alpha": 1.0,
        "optimizer": {"type": "Adam", "lr": 1e-3, "betas": (0.9, 0.999)},
    },
    ("imagenetc_vit", "sar"): {
        "type": "sar",
        "optimizer": {"type": "SGD", "lr": 1e-4, "momentum": 0.9, "nesterov": False},
    },
    ("ccc_vit", "cotta"): {
        "type": "cotta_images",
        "confidence": 0.1,
        "restore": 0.001,
        "optimizer": {"type": "SGD", "lr": 1e-4, "momentum": 0.9, "nesterov": True},
    },
}


@pytest.mark.parametrize(("table_name", "label"), IN_FULL)
def test_a_row_in_full(table_name, label):
    row = label.removesuffix("_reservoir").removesuffix("_robust")
    options = choose_row(TABLES[table_name], row, with_reservoir=row != label)
    assert options == IN_FULL[table_name, label]
    assert row_label(row, options) == label


@pytest.mark.parametrize(("table_name", "row"), PARTS)
def test_the_method_of_a_row(table_name, row):
    assert choose_row(TABLES[table_name], row)["method"] == PARTS[table_name, row]


def test_every_row_is_in_the_metafile_and_only_rows_are():
    found = load_rows(CONFIGS / METAFILE)
    plain = {(Path(row.config).stem, row.row.removesuffix("_reservoir")) for row in found}
    assert plain == set(PUBLISHED)
    assert len({(row.config, row.row, row.stream) for row in found}) == len(found)
    assert len({(row.config, row.row) for row in found}) == 118
    for row in found:
        assert ("Reservoir" in row.name) == row.row.endswith("_reservoir")


def paper() -> str:
    if not PAPER:
        pytest.skip("no source of the paper: name it in RESERVOIR_PAPER")
    return Path(PAPER).read_text(encoding="utf-8")


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
    """The row of each line: a line that begins with + belongs to the method above it."""
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


@pytest.mark.parametrize(("name", "stream"), IN_PAPER)
def test_transcription_agrees_with_the_paper(name, stream):
    text = paper()
    end = text.index(f"\\label{{{IN_PAPER[name, stream]}}}")
    lines = numbered_lines(text[text.rindex("\\begin{tabular}", 0, end) : end])
    expected = {}
    for ending, (_, [*visits, _mean]) in zip(endings([h for h, _ in lines]), lines, strict=True):
        # The source's number stands once for all visits.
        expected[ending] = visits * (20 if len(visits) == 1 else 1)
    found = {
        row.row: list(row.scores["mean"].values())
        for row in load_rows(CONFIGS / METAFILE)
        if (row.config, row.stream) == (f"{name}.py", stream)
    }
    assert found == expected


@pytest.mark.parametrize(
    ("label", "stream", "name", "rows"),
    [
        (
            "tab:gradual_cifar",
            "gradual",
            "cifar100c_resnext29",
            ("source", "eata", "eata_reservoir"),
        ),
        (
            "tab:cifar10c-recur-csc-temporal",
            "csc dirichlet 0.1",
            "cifar10c_wrn28",
            ("source", "rotta", "rotta_reservoir"),
        ),
    ],
)
def test_transcription_of_tables_in_two_halves(label, stream, name, rows):
    text = paper()
    start = text.index(f"\\label{{{label}}}")
    halves = text[start : text.index("\\end{table}", start)].split("\\vspace")
    first, second = ([numbers for _, numbers in numbered_lines(half)] for half in halves)
    for row, one, [*two, _mean] in zip(rows, first, second, strict=False):
        found = find_row(file(name), stream, row)
        assert list(found.scores["mean"].values()) == one + two


def test_the_published_row_is_that_of_the_stream():
    config = file("cifar10c_wrn28")
    csc, cdc = (find_row(config, stream, "tent").scores["mean"][20] for stream in ("csc", "cdc"))
    assert csc == 87.84
    assert cdc != csc
    assert find_row(config, "csc dirichlet 0.1", "tent") is None
    assert find_row(config, "csc") is None
    record = {"kind": "csc", "correlation": 0.1}
    assert stream_name(record) == "csc dirichlet 0.1"
    results = {"config_file": str(config), "row": "rotta", "stream": record}
    assert row_of(results).scores["mean"][20] == 38.87
    results["row"] = "rotta_reservoir"
    assert row_of(results).name == "RoTTA + ReservoirTTA"


def test_a_run_stands_beside_its_published_row():
    row = find_row(file("cifar10c_wrn28"), "csc", "tent")
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


@pytest.mark.parametrize("name", ["domainnet126_resnet50", "pacs_resnet50"])
def test_rows_without_visits_give_no_table(name):
    row = find_row(file(name), "csc", "eata")
    assert row.visits == []
    assert published_table([{"round": 1, "domain": "sketch", "error": 30.0}], row) is None
