"""The outcome of a check as plain data, for JSON and for the printed report."""

from __future__ import annotations

from typing import Any

from .finding import Finding
from .manifest import manifest_hash
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
        "cells": [_cell(survey, files, files.cell.name not in bad) for files in survey.found],
        "problems": _groups(survey, problems),
        "notes": _groups(survey, notes),
    }


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
