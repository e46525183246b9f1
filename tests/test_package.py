"""Metadata, requirements, and which part of the package may import what."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import mmseg_reservoir

ROOT = Path(__file__).parents[1]


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
    assert set(metadata.get_all("Provides-Extra")) == {"cls", "lite", "tests"}


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


@pytest.mark.parametrize("room", ["core", "style", "routing", "spaces", "methods", "cls", "build"])
def test_torch_only_rooms_import_no_mm_package(room):
    """In an interpreter of its own, since other tests import mmseg in this one."""
    module = f"mmseg_reservoir.{room}"
    code = (
        f"import importlib, pkgutil, sys, {module} as package\n"
        f"for info in pkgutil.walk_packages(getattr(package, '__path__', []), '{module}.'):\n"
        "    importlib.import_module(info.name)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = set(result.stdout.split())
    assert "mmseg_reservoir" in imported
    assert not imported & {"mmseg", "mmcv", "mmpretrain"}
