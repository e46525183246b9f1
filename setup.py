"""Packaging. The dependencies are in ``requirements/``, tool settings in ``pyproject.toml``."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent


def read_version() -> str:
    """Read the version without importing the package, whose dependencies may be missing."""
    text = (ROOT / "mmseg_reservoir" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def read_requirements(name: str) -> list[str]:
    """Read one file of ``requirements/``, without its comments."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def read_readme() -> str:
    """Read the long description; an unfinished checkout may have none."""
    readme = ROOT / "README.md"
    return readme.read_text(encoding="utf-8") if readme.exists() else ""


setup(
    name="mmseg_reservoir",
    version=read_version(),
    description="ReservoirTTA for MMSegmentation: prolonged test-time adaptation with a reservoir "
    "of domain experts",
    long_description=read_readme(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=find_packages(include=["mmseg_reservoir", "mmseg_reservoir.*"]),
    install_requires=read_requirements("runtime"),
    extras_require={
        "cls": read_requirements("cls"),
        "lite": read_requirements("mmcv-lite"),
        "tests": read_requirements("tests"),
    },
)
