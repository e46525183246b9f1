import os
import re
from pathlib import Path

import pytest
import yaml

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.report.published import METAFILE, find_row, load_rows, row_of
from mmseg_reservoir.report.tables import published_table

ROOT = Path(__file__).parents[2]
ACDC = ROOT / "configs" / "acdc"
MINICITY = ROOT / "configs" / "minicity"
PAPER = os.environ.get("RESERVOIR_PAPER")
CONDITIONS = ["fog", "night", "rain", "snow"]
VISITS = [1, 4, 7, 10]
NAMES = [
    "Source",
    "TENT",
    "TENT + ReservoirTTA",
    "CoTTA*",
    "CoTTA* + ReservoirTTA",
    "BECoTTA",
    "BECoTTA + ReservoirTTA",
    "LoRA + ReservoirTTA",
]
ENDINGS = [
    "source",
    "tent",
    "tent_reservoir",
    "cotta",
    "cotta_reservoir",
    "becotta",
    "becotta_reservoir",
    "lora_reservoir",
]
# MiniCity has rows that the paper has not: the robust preset, and EATA.
OURS = {
    "Source": "source",
    "TENT": "tent",
    "TENT + ReservoirTTA": "tent_reservoir",
    "TENT + robust": "tent_robust",
    "CoTTA*": "cotta",
    "CoTTA* + ReservoirTTA": "cotta_reservoir",
    "CoTTA* + robust": "cotta_robust",
    "BECoTTA": "becotta",
    "BECoTTA + ReservoirTTA": "becotta_reservoir",
    "BECoTTA + robust": "becotta_robust",
    "LoRA + ReservoirTTA": "lora_reservoir",
    "LoRA + robust": "lora_robust",
    "EATA": "eata",
    "EATA + ReservoirTTA": "eata_reservoir",
    "EATA + robust": "eata_robust",
}


def acdc() -> dict:
    return {row.name: row for row in load_rows(ACDC / METAFILE)}


def run(scores: dict[str, list[float]]) -> list[dict]:
    """The visits of a run, round by round."""
    rounds = max(len(row) for row in scores.values())
    return [
        {"round": r + 1, "domain": domain, "mIoU": row[r]}
        for r in range(rounds)
        for domain, row in scores.items()
        if r < len(row)
    ]


def cells(table: str) -> list[list[str]]:
    lines = [line.split("│")[1:-1] for line in table.splitlines() if "│" in line]
    return [[cell.strip() for cell in line] for line in lines]


@pytest.mark.parametrize(
    ("folder", "prefix", "expected"),
    [
        (ACDC, "segformer-b5", dict(zip(NAMES, ENDINGS, strict=True))),
        (MINICITY, "segformer-tiny", OURS),
    ],
)
def test_the_rows_of_the_table_in_order_and_their_configs(folder, prefix, expected):
    rows = load_rows(folder / METAFILE)
    assert [row.name for row in rows] == [*expected]
    assert [row.config for row in rows] == [f"{prefix}_{end}.py" for end in expected.values()]
    for model in yaml.safe_load((folder / METAFILE).read_text())["Models"]:
        assert (ROOT / model["Config"]).is_file(), f"{model['Name']}: no {model['Config']}"
        assert model["Metadata"]["Reservoir"] == (" + " in model["Name"])


def test_every_condition_has_the_four_visits():
    for name, row in acdc().items():
        if name == "BECoTTA + ReservoirTTA":  # not in the paper's table
            assert row.scores == {}
            continue
        assert list(row.scores) == CONDITIONS
        assert row.visits == VISITS
        assert all(30 < value < 80 for scores in row.scores.values() for value in scores.values())


def test_minicity_has_no_published_numbers():
    assert all(not row.scores for row in load_rows(MINICITY / METAFILE))


def test_the_source_model_does_not_change_from_visit_to_visit():
    scores = acdc()["Source"].scores
    assert {domain: set(row.values()) for domain, row in scores.items()} == {
        "fog": {69.1},
        "night": {40.3},
        "rain": {59.7},
        "snow": {57.8},
    }


def paper_lines() -> list[tuple[str, list[float]]]:
    """First cell and numbers of every line of the paper's table; margins have an empty cell."""
    if not PAPER:
        pytest.skip("no source of the paper: name it in RESERVOIR_PAPER")
    text = Path(PAPER).read_text(encoding="utf-8")
    table = text[text.index(r"\label{tab:segmentation}") :]
    table = table[: table.index(r"\end{tabular}")]
    lines = []
    for line in table.splitlines():
        first, *rest = line.split("&")
        found = [re.search(r"(negmarginred\{)?(\d+\.\d)\b", cell) for cell in rest]
        if len(rest) == 16 and all(found):
            numbers = [(-1 if m[1] else 1) * float(m[2]) for m in found]
            lines.append((re.sub(r"\\rowcolor\{[^}]*\}", "", first).strip(), numbers))
    return lines


def paper_names() -> list[str]:
    return [name for name in NAMES if name != "BECoTTA + ReservoirTTA"]


def numbers(row) -> list[float]:
    return [row.scores[domain][visit] for domain in CONDITIONS for visit in VISITS]


def test_transcription_agrees_with_the_paper():
    lines = [(name, values) for name, values in paper_lines() if name]
    plain = ["Source", "TENT", "+", "CoTTA", "+", "BECoTTA", "LORA"]
    assert [re.match(r"\+|\w+", name)[0] for name, _ in lines] == plain
    rows = acdc()
    for name, (_, values) in zip(paper_names(), lines, strict=True):
        assert numbers(rows[name]) == values, name


def test_the_papers_margins_are_the_differences_of_its_rows():
    margins = [values for name, values in paper_lines() if not name]
    rows = acdc()
    pairs = [
        ("TENT", "TENT + ReservoirTTA"),
        ("CoTTA*", "CoTTA* + ReservoirTTA"),
        ("BECoTTA", "LoRA + ReservoirTTA"),
    ]
    for (base, ours), margin in zip(pairs, margins, strict=True):
        differences = [b - a for a, b in zip(numbers(rows[base]), numbers(rows[ours]), strict=True)]
        # Both sides of a difference are rounded to one decimal, the margin on its own.
        assert differences == pytest.approx(margin, abs=0.11), ours


def test_a_config_finds_its_row_by_its_file_name(tmp_path):
    assert find_row(ACDC / "segformer-b5_tent.py").name == "TENT"
    assert find_row(str(ACDC / "segformer-b5_cotta_reservoir.py")).name == "CoTTA* + ReservoirTTA"
    assert find_row(ACDC / "segformer-b5_becotta_reservoir.py") is None
    assert find_row(MINICITY / "segformer-tiny_tent.py") is None
    assert find_row(tmp_path / "segformer-b5_tent.py") is None
    # A record of another machine names a folder that is not here.
    assert find_row(tmp_path / "configs" / "acdc" / "segformer-b5_tent.py").name == "TENT"
    assert find_row(None) is None


def test_a_config_is_found_from_its_own_folder_and_from_the_root(tmp_path, monkeypatch):
    monkeypatch.chdir(ACDC)
    assert find_row("segformer-b5_tent.py").name == "TENT"
    assert find_row("./segformer-b5_tent.py").name == "TENT"
    assert find_row("../acdc/segformer-b5_tent.py").name == "TENT"
    assert find_row("no_such_config.py") is None
    monkeypatch.chdir(tmp_path)
    assert find_row("segformer-b5_tent.py") is None
    assert find_row("../segformer-b5_tent.py") is None
    assert find_row("/segformer-b5_tent.py") is None  # the root has no name
    (tmp_path / "[**").mkdir()
    assert find_row(tmp_path / "[**" / "segformer-b5_tent.py") is None
    results = "[{Dataset: ACDC fog, Metrics: {mIoU visit 1: 5}}]"
    text = f"Models: [{{Name: Own, Config: own.py, Results: {results}}}]"
    (tmp_path / METAFILE).write_text(text)
    assert find_row("own.py").name == "Own"


def test_a_config_that_is_a_table_has_a_row_for_each_of_its_own(tmp_path):
    models = [
        f"{{Name: {name}, Config: table.py, Row: {row}, Results: "
        f"[{{Dataset: CIFAR-10-C mean, Stream: csc, Metrics: {{error visit 1: {error}}}}}]}}"
        for name, row, error in (("A", "a", 5), ("A + ReservoirTTA", "a_reservoir", 4))
    ]
    (tmp_path / METAFILE).write_text(f"Models: [{', '.join(models)}]")
    config = tmp_path / "table.py"
    assert find_row(config, "csc", "a").scores == {"mean": {1: 5.0}}
    assert find_row(config, "csc", "a_reservoir").name == "A + ReservoirTTA"
    assert find_row(config, "cdc", "a") is None
    assert find_row(config, "csc", "b") is None
    assert find_row(config, "csc") is None
    results = {"config_file": str(config), "stream": {"kind": "csc"}, "row": "a_reservoir"}
    assert row_of(results).scores["mean"][1] == 4.0


def test_a_broken_metafile_is_named(tmp_path):
    path = tmp_path / METAFILE
    for text in ("Models: [{Config: a.py}]", "- 1", "Models: [", "Models: [{Name: a, Config: 1}]"):
        path.write_text(text)
        with pytest.raises(ReservoirError, match=r"metafile.yaml is no metafile") as caught:
            load_rows(path)
        assert "\n" not in str(caught.value)


def test_table_beside_the_published_row():
    row = acdc()["TENT"]
    scores = {
        d: [row.scores[d][1] + i, 0.0, 0.0, row.scores[d][4]] for i, d in enumerate(row.scores)
    }
    lines = cells(published_table(run(scores), row))
    assert lines[0] == ["visit", "", "1", "4"]  # 7 and 10 were not reached
    assert lines[1:4] == [
        ["fog", "ours", "69.00", "68.00"],
        ["", "published", "69.0", "68.0"],
        ["", "difference", "+0.00", "+0.00"],
    ]
    assert lines[4][0] == "night"
    assert lines[6] == ["", "difference", "+1.00", "+0.00"]
    # (69.0 + 40.2 + 60.0 + 57.5) / 4, and 0 + 1 + 2 + 3 above it in the mean
    assert lines[13:] == [
        ["mean", "ours", "58.17", "55.45"],
        ["", "published", "56.67", "55.45"],
        ["", "difference", "+1.50", "+0.00"],
    ]


def test_a_run_that_skipped_images_is_marked():
    visits = run({domain: [1.0] for domain in acdc()["TENT"].scores})
    visits[2]["skipped"] = 1
    lines = cells(published_table(visits, acdc()["TENT"]))
    assert {line[1] for line in lines[1:]} == {"ours*", "published", "difference"}


def test_table_of_an_interrupted_or_foreign_run():
    row = acdc()["TENT"]
    unfinished = {"fog": [70.0] * 4, "night": [40.0] * 3}
    lines = cells(published_table(run(unfinished), row))
    assert lines[0] == ["visit", "", "1"]
    assert [line[0] for line in lines if line[0]] == ["visit", "fog", "night", "mean"]
    assert published_table(run({"dusk": [50.0]}), row) is None
