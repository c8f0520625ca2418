"""Plain text for terminals: columns that line up, and nothing that a terminal would obey."""

from collections.abc import Iterable, Sequence

_WIDEST = 300


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows with their cells under each other, two spaces apart; one line a row."""
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "".join(f"{line}\n" for line in lines)


def plain(text: str) -> str:
    """The text without control characters, at most 300 characters: it may come from an alert."""
    text = "".join(character if character.isprintable() else " " for character in text[:1000])
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
