"""Metadata, requirements, what is installed, and which part of the package may import what."""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from stream_run import data_options

import mmseg_reservoir

ROOT = Path(__file__).parents[1]
PARTS = {".ci", ".github", "benchmarks", "checkpoints", "configs", "docker", "docs"}
PARTS |= {"mmseg_reservoir", "requirements", "tests", "tools"}


def read_requirements(path):
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


def read_constraints():
    """Name -> version, for the Python that runs this test."""
    pins = [pin for pin in read_requirements("constraints.txt") if is_for_this_python(pin)]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pins}


def is_for_this_python(requirement):
    return requirement.marker is None or requirement.marker.evaluate()


def test_installed_metadata_agree_with_the_source():
    metadata = importlib.metadata.metadata("mmseg_reservoir")
    assert metadata["Version"] == mmseg_reservoir.__version__
    assert metadata["Requires-Python"] == ">=3.10"
    extras = {"cls", "lite", "live", "ray", "report", "tests"}
    assert set(metadata.get_all("Provides-Extra")) == extras


def test_mmcv_comes_only_with_the_extra_lite():
    requires = map(Requirement, importlib.metadata.requires("mmseg_reservoir"))
    mmcv = [requirement for requirement in requires if requirement.name.startswith("mmcv")]
    assert [requirement.name for requirement in mmcv] == ["mmcv-lite"]
    assert mmcv[0].marker.evaluate({"extra": "lite"})
    assert not mmcv[0].marker.evaluate({"extra": ""})


@pytest.mark.parametrize(
    "path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda p: p.stem
)
def test_constraints_satisfy_the_requirements(path):
    constraints = read_constraints()
    for requirement in read_requirements(path):
        if requirement.name == "torch":  # chosen by the Makefile, see constraints.txt
            continue
        assert requirement.specifier.contains(constraints[canonicalize_name(requirement.name)])


def test_constraints_are_exact_and_leave_torch_to_the_user():
    pins = read_requirements("constraints.txt")
    assert all(str(pin.specifier).startswith("==") for pin in pins)
    assert "torch" not in {pin.name for pin in pins}


def test_the_torch_of_the_makefile_satisfies_the_requirements():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    pin = next(
        Requirement(line.removeprefix("TORCH ?= "))
        for line in makefile.splitlines()
        if line.startswith("TORCH ?=")
    )
    torch = next(r for r in read_requirements("requirements/runtime.txt") if r.name == "torch")
    assert torch.specifier.contains(str(pin.specifier).removeprefix("=="))


def test_licence_and_readme_are_there():
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    assert (ROOT / "README.md").is_file()


WITHOUT_MM = """
import importlib
import pkgutil
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"mmseg", "mmcv", "mmengine", "mmpretrain"}:
            raise ModuleNotFoundError(f"{name} is absent", name=name)

sys.meta_path.insert(0, Absent())
rooms = "core style routing spaces methods cls portable datasets check report live minicity build"
for room in rooms.split():
    room = importlib.import_module(f"mmseg_reservoir.{room}")
    for info in pkgutil.walk_packages(getattr(room, "__path__", []), f"{room.__name__}."):
        importlib.import_module(info.name)

import torch
from torch import nn
from mmseg_reservoir.cls import AdaptiveClassifier

torch.manual_seed(0)
layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
source = [torch.rand(4, 3, 16, 16) for _ in range(20)]
model = AdaptiveClassifier(nn.Sequential(*layers, nn.Linear(8, 5)), "tent", "published", source)
for images in [source[0], source[1] / 9, source[2] / 9]:
    assert model(images).shape == (4, 5)
print(model.last.k, model.method.counts["updates"])
"""


def python(*arguments, cwd=ROOT, **environment):
    """Run Python; its output, or all that it said if it failed."""
    command = [sys.executable, *map(str, arguments)]
    env = {**os.environ, **environment}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_all_but_segmentation_imports_and_works_where_no_mm_package_is():
    assert python("-c", WITHOUT_MM).split() == ["2", "3"]  # experts, updates


def test_model_index_names_every_metafile():
    index = yaml.safe_load((ROOT / "model-index.yml").read_text(encoding="utf-8"))
    there = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("configs/**/metafile.yaml")}
    assert set(index["Import"]) == there


def test_citation_changelog_and_hooks_fit_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == mmseg_reservoir.__version__
    assert citation["preferred-citation"]["title"].startswith("ReservoirTTA")
    assert "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\d+\.\d+\.\d+", hooks)) == {read_constraints()["ruff"]}


def test_the_workflow_and_ci_run_lint_and_tests():
    workflow = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for target in ("make lint", "make test"):
        assert re.search(rf"^\s+- run: {target}\b", workflow, re.M)
        assert re.search(rf"^{target}$", script, re.M)
    versions = yaml.safe_load(workflow)["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert versions == ["3.10", "3.11", "3.12"]


@pytest.fixture(scope="session")
def archives(tmp_path_factory):
    """The source distribution, and the wheel that is built from it; the checkout stays clean."""
    checkout, unpacked, out = (tmp_path_factory.mktemp(n) for n in ("checkout", "sdist", "dist"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, checkout)
        elif path.name in PARTS:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, checkout / path.name, ignore=ignored)
    build = (
        "import sys; from setuptools import build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"
    )
    python("-c", build, "build_sdist", out, cwd=checkout)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    python("-c", build, "build_wheel", out, cwd=source)
    (wheel,) = out.glob("*.whl")
    return source, wheel


@pytest.fixture(scope="session")
def installed(archives, tmp_path_factory):
    """A folder where the wheel is installed."""
    target = tmp_path_factory.mktemp("installed")
    python("-m", "pip", "install", "-qq", "--no-deps", "--target", target, archives[1])
    return target


def tree(root, *patterns):
    return {path.relative_to(root).as_posix() for p in patterns for path in root.glob(p)}


def test_wheel_and_source_distribution_are_whole(archives):
    source, wheel = archives
    shipped = tree(ROOT, "configs/**/*.py", "configs/**/*.yaml", "tools/*.py", "model-index.yml")
    lines = (ROOT / "checkpoints/README.md").read_text(encoding="utf-8").splitlines()
    weights = "\n".join(line for line in lines if "(not in the wheel)" not in line)
    shipped |= {f"checkpoints/{name}" for name in re.findall(r"`(\w+\.safetensors)` \|", weights)}
    shipped |= {"checkpoints/README.md"}
    code = tree(
        ROOT,
        *(f"mmseg_reservoir/{part}" for part in ("**/*.py", "live/live.*", "report/page/page.*")),
    )
    code |= {"mmseg_reservoir/py.typed"}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == code | {f"mmseg_reservoir/.mim/{name}" for name in shipped}
    wanted = shipped | code | tree(ROOT, "tests/**/*.py", "docs/**/*.md", "benchmarks/*.py")
    wanted |= {"Makefile", "constraints.txt", "CHANGELOG.md", "CITATION.cff", ".ci/run"}
    assert not {name for name in wanted if not (source / name).is_file()}
    assert wheel.stat().st_size < 12e6


def test_an_installed_package_finds_its_files_from_another_folder(installed, tmp_path):
    code = (
        "import json, mmseg_reservoir\n"
        "from mmseg_reservoir.config.config_files import find_config\n"
        "from mmseg_reservoir.io.files import shipped\n"
        "from mmseg_reservoir.style.vgg import SHIPPED\n"
        "found = [mmseg_reservoir.__file__, find_config('minicity/segformer-tiny_tent.py'),\n"
        "         shipped(SHIPPED), shipped('tools/test_tta.py')]\n"
        "print(json.dumps([str(path) for path in found]))\n"
    )
    found = json.loads(python("-c", code, cwd=tmp_path, PYTHONPATH=str(installed)))
    assert all(Path(path).is_file() for path in found)
    assert all(Path(path).is_relative_to(installed) for path in found)
    (entry_points,) = installed.glob("*.dist-info/entry_points.txt")
    commands = re.findall(r"^(reservoir\S*) = ", entry_points.read_text(), re.MULTILINE)
    assert {"reservoir", "reservoir-test"} <= set(commands)
    assert set(commands) == {path.name for path in (installed / "bin").iterdir()}


@pytest.mark.slow
def test_an_installed_command_runs_a_shipped_config(installed, minicity, tmp_path):
    command = [
        *(installed / "bin/reservoir", "test"),
        "minicity/segformer-tiny_tent.py",
        "--work-dir=out",
    ]
    options = [*data_options(minicity), "test_cfg.rounds=1"]
    python(*command, "--cfg-options", *options, cwd=tmp_path, PYTHONPATH=str(installed))
    results = json.loads((tmp_path / "out/results.json").read_text())
    assert [visit["domain"] for visit in results["visits"]] == ["fog", "night"]
    assert Path(results["config_file"]).is_relative_to(installed)


@pytest.mark.slow
def test_mmsegs_own_test_tool_runs_our_configs(minicity, tmp_path):
    """It imports mmseg through the config's ``custom_imports``, hence after our stand-ins."""
    mmseg = Path(importlib.util.find_spec("mmseg").origin).parent
    config = ROOT / "configs/minicity/segformer-tiny_tent.py"
    weights = ROOT / "checkpoints/segformer_tiny_minicity.safetensors"
    options = [*data_options(minicity), "test_cfg.rounds=1"]
    command = [mmseg / ".mim/tools/test.py", config, weights, "--work-dir=out", "--cfg-options"]
    python(*command, *options, cwd=tmp_path)
    results = json.loads((tmp_path / "out/results.json").read_text())
    assert [visit["domain"] for visit in results["visits"]] == ["fog", "night"]


def test_no_name_means_two_things():
    """Of files only ``base.py``, what a room's parts have in common, stands in several rooms."""
    files = list((ROOT / "mmseg_reservoir").rglob("*.py"))
    files = [path for path in files if path.parent.name != "cli"]  # which has a file per verb
    names = Counter(path.stem for path in files)
    rooms = {path.parent.name for path in files}
    assert {name for name, count in names.items() if count > 1} == {"__init__", "base"}
    classes = Counter(
        name for path in files for name in re.findall(r"^class (\w+)", path.read_text(), re.M)
    )
    assert {name for name, count in classes.items() if count > 1 and name[0] != "_"} == set()
    assert "hooks" in rooms  # the walk went down to the last room
