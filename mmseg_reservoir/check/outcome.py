"""The outcome of a check: as plain data, for JSON, and as a report on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..datasets.manifest import manifest_hash
from .findings import Finding
from .survey import Files, Survey


def summarise(survey: Survey, findings: list[Finding]) -> dict[str, Any]:
    """Counts and hashes of every cell, and findings grouped by kind.

    ``manifest`` is the hash over names and sizes that ``results.json`` records too; ``content`` is
    the one over the content of the files as well, None where they were not read.
    """
    notes = [finding for finding in findings if finding.kind.is_note]
    problems = [finding for finding in findings if not finding.kind.is_note]
    bad = {finding.cell for finding in problems}
    return {
        "dataset": survey.layout.title,
        "root": str(survey.root),
        "decoded": survey.decoded,
        "ok": not bad,
        "cells": [_cell(survey, files, files.cell.name not in bad) for files in survey.cells],
        "problems": _groups(survey, problems),
        "notes": _groups(survey, notes),
    }


def show(summary: Mapping[str, Any], console: Console, examples: int = 5) -> None:
    """Print the table, the hashes, the problems with their fixes, and the verdict.

    Args:
        summary: What `summarise` returns.
        console: Where to print.
        examples: How many files to name of each problem.
    """
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
            word = heading.removesuffix("s")
            title = f"{word}: {group['title']} ({group['count']})"
            console.print(f"\n[bold {style}]{escape(title)}[/]", soft_wrap=True)
            for text in group["found"][:examples]:
                _line(console, f"  {text}")
            if group["count"] > examples:
                _line(console, f"  ... and {group['count'] - examples} more")
            console.print(f"  [bold]how to fix:[/] {escape(group['fix'])}", soft_wrap=True)
    _line(console, f"\n{verdict(summary)}")


def verdict(summary: Mapping[str, Any]) -> str:
    """One line at the end."""
    count = sum(group["count"] for group in summary["problems"])
    text = f"{summary['dataset']} in {summary['root']}: "
    text += "fine" if summary["ok"] else f"{count} problem{'s' if count > 1 else ''} found"
    if not summary["decoded"]:
        text += " (--fast: no file was read, so damage, sizes, labels and copies were not checked)"
    return text


def _cell(survey: Survey, files: Files, ok: bool) -> dict[str, Any]:
    cell = files.cell
    there = [path for path in files.used if survey.facts[path].size is not None]
    manifest = content = None
    if there:
        manifest = manifest_hash(there, survey.root)
        if survey.decoded:
            contents = {path: survey.facts[path].sha256 or "" for path in there}
            content = manifest_hash(there, survey.root, contents)
    return {
        "split": cell.split,
        "condition": cell.condition,
        "images": len(files.images),
        "labels": len(files.labels) if cell.labels is not None else None,
        "pairs": len(files.pairs) if cell.labels is not None else None,
        "expected": cell.expected,
        "ok": ok,
        "manifest": manifest,
        "content": content,
    }


def _groups(survey: Survey, findings: list[Finding]) -> list[dict[str, Any]]:
    layout, root = survey.layout, survey.root
    download = layout.download.format(root=root)
    make_labels = layout.make_labels.format(root=root) or download
    groups = {}
    for finding in findings:
        kind = finding.kind
        if kind not in groups:
            fix = kind.fix.format(root=root, download=download, make_labels=make_labels)
            groups[kind] = {"title": kind.title, "fix": fix, "count": 0, "found": []}
        groups[kind]["count"] += 1
        groups[kind]["found"].append(finding.text)
    return list(groups.values())


def _table(summary: Mapping[str, Any]) -> Table:
    table = Table(title=f"{summary['dataset']}: {escape(summary['root'])}", box=box.SIMPLE)
    table.add_column("split")
    table.add_column("condition")
    for column in ("images", "labels", "pairs", "expected"):
        table.add_column(column, justify="right")
    table.add_column("ok?", min_width=6)
    for cell in summary["cells"]:
        numbers = [cell[name] for name in ("images", "labels", "pairs", "expected")]
        mark = "[green]ok[/]" if cell["ok"] else "[red]NO[/]"
        if cell["ok"] and not cell["images"]:
            mark = "absent"
        texts = ["-" if number is None else str(number) for number in numbers]
        table.add_row(cell["split"], cell["condition"], *texts, mark)
    return table


def _line(console: Console, text: str) -> None:
    # Names of files are no markup, and must not be broken.
    console.print(text, markup=False, highlight=False, soft_wrap=True)
