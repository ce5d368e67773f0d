"""Writes docs/performance.svg and the table of docs/performance.md from a run's figures.

python -m bench frameworks growth --json bench/results.json && python -m bench.training.report
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from bench.table import Row, text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results.json"
PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.svg"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

COLUMNS = {
    "samples a second": (
        "honed samples/s",
        "bare engine samples/s",
        "PyTorch samples/s",
        "samples/s ÷ PyTorch",
    ),
    "request to version, s": (
        "honed request to version s",
        "second job s",
        "bare engine s",
        "PyTorch s",
        "PyTorch s ÷ honed s",
        "first ÷ second job",
    ),
    "peak memory of the training process, MB": (
        "honed peak MB",
        "bare engine peak MB",
        "PyTorch peak MB",
        "peak ÷ PyTorch",
    ),
    "accuracy": ("honed accuracy", "PyTorch accuracy"),
}
"""Title of a table → its columns."""
BARS = (
    ("honed request to version s", "Hone, first job", "#0b6e4f"),
    ("second job s", "Hone, second job", "#6bbf59"),
    ("bare engine s", "the engine alone, whole graph", "#8d99ae"),
    ("PyTorch s", "PyTorch", "#d1495b"),
)
WIDTH, LEFT, BAR, GAP = 760, 210, 16, 26


def markdown(results: dict[str, Any]) -> str:
    """The machine, and one table per subject."""
    lines = [f"{results['machine']}, load {results['load']}, {results['date']}.", ""]
    for title, columns in COLUMNS.items():
        rows = [
            {"": row["model"], **{column: row[column] for column in columns}}
            for row in results["frameworks"]
        ]
        lines += [f"**{title}**", "", *_table(rows), ""]
    if "growth" in results:
        lines += ["**one epoch of the MLP, by its samples**", "", *_table(results["growth"]), ""]
    return "\n".join(lines)


def _table(rows: list[Row]) -> list[str]:
    names = [name for name in rows[0] if name != "must reach"]
    head = ["| " + " | ".join(names) + " |", "|---" + "|--:" * (len(names) - 1) + "|"]
    return head + ["| " + " | ".join(text(row[name]) for name in names) + " |" for row in rows]


def picture(rows: list[Row]) -> str:
    """Bars of seconds, each model on its own scale."""
    parts, y = [], 24
    for row in rows:
        parts.append(_label(12, y, row["model"], bold=True))
        y += 10
        longest = max(row[key] for key, _, _ in BARS)
        for key, name, colour in BARS:
            length = max(1.0, (WIDTH - LEFT - 80) * row[key] / longest)
            parts.append(_label(12, y + 12, name))
            parts.append(
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
            )
            parts.append(_label(LEFT + length + 6, y + 12, f"{text(row[key])} s"))
            y += BAR + 4
        y += GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" '
        'font-family="sans-serif" font-size="12" role="img">\n'
        "<title>Seconds from the request, or the first step, to the trained model</title>\n"
        f'<rect width="{WIDTH}" height="{y}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _label(x: float, y: float, words: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y}"{weight}>{escape(words)}</text>'


def main() -> None:
    """Rewrite the picture, and the part of the page between its two markers."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    results = json.loads(source.read_text("utf-8"))
    PICTURE.write_text(picture(results["frameworks"]), "utf-8")
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{markdown(results)}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
