"""Packaging. The dependencies are in ``requirements/``, tool settings in ``pyproject.toml``."""

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SHIPPED = (
    "model-index.yml",
    "configs/**/*.py",
    "configs/**/*.yaml",
    "tools/*.py",
    "checkpoints/README.md",
    # By name, because the folder may also hold large weights.
    "checkpoints/becotta_tiny_minicity.safetensors",
    "checkpoints/digits_convnet.safetensors",
    "checkpoints/digits_vit.safetensors",
    "checkpoints/efficientvit_b0_cityscapes.safetensors",
    "checkpoints/segformer_tiny_minicity.safetensors",
    "checkpoints/styles_cityscapes.safetensors",
    "checkpoints/vgg19_front.safetensors",
)
"""Files that are installed in the package's ``.mim``, as mmseg's are."""
OLD_COMMANDS = (
    "adapt check-dataset convert-checkpoint experts figures fleet make-minicity report summarize "
    "sweep test test-cls train warmup"
)
"""``reservoir-NAME`` of earlier releases: each names its verb of ``reservoir`` and runs it."""


class BuildWithShipped(build_py):
    """Copies the bundled files into the build.

    An editable install needs no copies: ``mmseg_reservoir.io.files.shipped`` finds the checkout's.
    """

    def run(self) -> None:
        """Build the package, then copy."""
        package = Path(self.build_lib) / "mmseg_reservoir"
        # Modules that were renamed since the last build must not stay in it.
        shutil.rmtree(package, ignore_errors=True)
        super().run()
        for name in [] if self.editable_mode else shipped_files():
            target = package / ".mim" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)

    def get_source_files(self) -> list[str]:
        """Return the files that the source distribution needs."""
        return [*super().get_source_files(), *shipped_files()]


def shipped_files() -> list[str]:
    """Return the files of ``SHIPPED``, relative to this folder."""
    matches = {pattern: sorted(ROOT.glob(pattern)) for pattern in SHIPPED}
    missing = [pattern for pattern, files in matches.items() if not files]
    if missing:
        raise FileNotFoundError(f"{ROOT} is not complete, it has no {', '.join(missing)}")
    return [str(file.relative_to(ROOT)) for files in matches.values() for file in files]


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
    author="the mmseg_reservoir contributors",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=find_packages(include=["mmseg_reservoir", "mmseg_reservoir.*"]),
    package_data={"mmseg_reservoir": ["py.typed", "live/live.*", "report/page/page.*"]},
    cmdclass={"build_py": BuildWithShipped},
    entry_points={
        "console_scripts": [
            "reservoir = mmseg_reservoir.cli.app:main",
            *(
                f"reservoir-{name} = mmseg_reservoir.cli.app:old_command"
                for name in OLD_COMMANDS.split()
            ),
        ]
    },
    install_requires=read_requirements("runtime"),
    extras_require={
        "cls": read_requirements("cls"),
        "lite": read_requirements("mmcv-lite"),
        "live": read_requirements("live"),
        "ray": read_requirements("ray"),
        "report": read_requirements("report"),
        "tests": [
            r for name in ("live", "ray", "report", "tests") for r in read_requirements(name)
        ],
    },
)
