"""No page, message, docstring, comment or name has a word that readers stumble over."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_YET = ()
"""Rooms that may still have some."""
PHRASES = {
    r"go(es|ne|ing)? on\b": "resume, continue",
    r"tells?|told|telling": "return, report, store",
    r"says?|said": "return, report, write",
    r"stands? in|stood in": "is in",
    r"comes? with us": "bundled, included",
    r"(un)?mend(s|ed|ing|able)?": "fix",
    r"anew": "again, reset",
    r"of (one's|ones|your|its|their|his) own": "custom, your, separate",
    r"at hand": "available",
    r"becom(es?|ing) of|(is|are) made of": "(name the thing)",
    r"(has|have|does|is|are) (them|it) not|(is|are) (?-i:none)|knows? [\w-]+ alone": "not, only",
    r"who|whose": "which, its",
    r"look(s|ed|ing)? at (the )?source": "calibrate, measure",
    r"wish(es|ed)?|fulfil(l|s|led)?": "option, request",
    r"\w*(behaviour|colour|centre|licence|labell|cancelled|neighbour|favour)\w*": "American",
    r"\w*(al|gn|an|on|tim|nim|xim|mar|tor|dard|ken|dom)is(e|ed|es|ing|ation)": "American",
}
"""What no line has, and what to write instead."""
NAMES = {
    "told": "display_path", "known": "matched_keys", "found": "(what was found)",
    "place": "path, index", "news": "delta", "absorb": "merge_delta",
    "Workplace": "TaskContext", "look_at_source": "calibrate", "Plan": "RunBuilder",
    "CARE": "safeguards", "_cares": "safeguards", "PARTS": "ROUTER_COMPONENTS",
    "Parts": "ExpertStateSplitter", "Choice": "PartSpec", "given": "injected",
    "asks_for": "accepts", "must_see": "needs_every_batch",
    "selects_by": "filter_options", "moving": "parameter_like_state", "carried": "buffers",
    "carried_kept": "preserve_buffers", "followers": "streaming_norms", "begin_at": "set_source",
    "LastGood": "StepRollback", "Watch": "ExpertHealth",
    "Answers": "ProbePair", "wavers": "flip_inconsistency", "doubt": "expected_error",
    "signs": "alarm_ratios", "_settle": "_apply_safeguards", "blind": "fallback_route",
    "Shown": "NormalizingEncoder", "honest": "needs_no_crossfit", "aside": "without_side_effects",
    "also": "extra_eval_sets", "write_whole": "atomic_write", "end_in_one_line": "run_cli",
    "Station": "StreamWorker", "Contents": "ReservoirSnapshot", "troubles": "run_warnings",
}  # fmt: skip
"""What no variable, function or class is called."""
PATTERN = re.compile("|".join(rf"(?P<p{i}>\b({p})\b)" for i, p in enumerate(PHRASES)), re.I)


def hits(path):
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        for match in [] if "old name" in line else PATTERN.finditer(line):
            yield number, match[0], list(PHRASES.values())[int(match.lastgroup[1:])]
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and token.string in NAMES:
                yield token.start[0], token.string, NAMES[token.string]


def files():
    for folder in ("mmseg_reservoir", "tools", "configs", "docs", "benchmarks"):
        for pattern in ("*.py", "*.md"):
            yield from sorted((ROOT / folder).rglob(pattern))
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile"))


ROOMS = {}
for file in files():
    parts = file.relative_to(ROOT).parts
    ROOMS.setdefault("/".join(parts[: 2 if parts[0] == "mmseg_reservoir" else 1]), []).append(file)


@pytest.mark.parametrize("room", sorted(set(ROOMS) - set(NOT_YET)))
def test_words(room):
    assert not [
        f"{path.relative_to(ROOT)}:{number}: {word!r}: write {better}"
        for path in ROOMS[room]
        for number, word, better in hits(path)
    ]
