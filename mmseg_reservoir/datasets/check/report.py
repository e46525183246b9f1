"""Report the result of a check: as plain data for JSON, and on the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..manifest import manifest_hash
from .checks import Finding
from .survey import Files, Survey


def summarize(survey: Survey, findings: list[Finding]) -> dict[str, Any]:
    """Return counts and hashes of every cell, and the findings grouped by kind.

    ``manifest`` is a hash of names and sizes, as in ``results.json``. ``content`` also covers the
    content of the files; it is None if they were not read.
    """
    problems = [finding for finding in findings if not finding.kind.is_note]
    bad = {finding.cell for finding in problems}
    return {
        "dataset": survey.layout.title,
        "root": str(survey.root),
        "decoded": survey.decoded,
        "ok": not bad,
        "cells": [_cell(survey, files, files.cell.name not in bad) for files in survey.cells],
        "problems": _groups(survey, problems),
        "notes": _groups(survey, [finding for finding in findings if finding.kind.is_note]),
    }


def show(summary: Mapping[str, Any], console: Console, examples: int = 5) -> None:
    """Print the table, the hashes, each problem with examples and its fix, and the verdict."""
    console.print(_table(summary))
    console.print("\nManifests (the first is in results.json: data.CONDITION.manifest)")
    for cell in summary["cells"]:
        if cell["manifest"] is not None:
            name = f"{cell['split']}/{cell['condition']}"
            _line(console, f"  {name:<14} names+sizes {cell['manifest']}")
            if cell["content"] is not None:
                _line(console, f"  {'':<14} content     {cell['content']}")
    for heading, style in (("notes", "cyan"), ("problems", "red")):
        for group in summary[heading]:
            title = f"{heading.removesuffix('s')}: {group['title']} ({group['count']})"
            console.print(f"\n[bold {style}]{escape(title)}[/]", soft_wrap=True)
            for text in group["found"][:examples]:
                _line(console, f"  {text}")
            if group["count"] > examples:
                _line(console, f"  ... and {group['count'] - examples} more")
            console.print(f"  [bold]how to fix:[/] {escape(group['fix'])}", soft_wrap=True)
    _line(console, f"\n{verdict(summary)}")


def verdict(summary: Mapping[str, Any]) -> str:
    """Return the last line of the report."""
    count = sum(group["count"] for group in summary["problems"])
    text = f"{summary['dataset']} in {summary['root']}: "
    text += "fine" if summary["ok"] else f"{count} problem{'s' if count > 1 else ''} found"
    if not summary["decoded"]:
        text += " (--fast: no file was read, so damage, sizes, labels and copies were not checked)"
    return text


def _cell(survey: Survey, files: Files, ok: bool) -> dict[str, Any]:
    cell = files.cell
    paths = [path for path in files.used if survey.facts[path].size is not None]
    contents = {path: survey.facts[path].sha256 or "" for path in paths}
    return {
        "split": cell.split,
        "condition": cell.condition,
        "images": len(files.images),
        "labels": len(files.labels) if cell.labels is not None else None,
        "pairs": len(files.pairs) if cell.labels is not None else None,
        "expected": cell.expected,
        "ok": ok,
        "manifest": manifest_hash(paths, survey.root) if paths else None,
        "content": (
            manifest_hash(paths, survey.root, contents) if paths and survey.decoded else None
        ),
    }


def _groups(survey: Survey, findings: list[Finding]) -> list[dict[str, Any]]:
    download = survey.layout.download.format(root=survey.root)
    make_labels = survey.layout.make_labels.format(root=survey.root) or download
    texts = defaultdict(list)
    for finding in findings:
        texts[finding.kind].append(finding.text)
    return [
        {
            "title": kind.title,
            "fix": kind.fix.format(download=download, make_labels=make_labels),
            "count": len(details),
            "found": details,
        }
        for kind, details in texts.items()
    ]


def _table(summary: Mapping[str, Any]) -> Table:
    title = f"{summary['dataset']}: {escape(summary['root'])}"
    table = Table("split", "condition", title=title, box=box.SIMPLE)
    columns = ("images", "labels", "pairs", "expected")
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("ok?", min_width=6)
    for cell in summary["cells"]:
        numbers = ("-" if cell[column] is None else str(cell[column]) for column in columns)
        status = "[green]ok[/]" if cell["images"] else "absent"
        mark = status if cell["ok"] else "[red]NO[/]"
        table.add_row(cell["split"], cell["condition"], *numbers, mark)
    return table


def _line(console: Console, text: str) -> None:
    # File names must not be taken for markup or wrapped.
    console.print(text, markup=False, highlight=False, soft_wrap=True)
