"""Put a benchmark's output into a page of docs/, between its markers."""

from pathlib import Path


def write(path: Path, benchmark: str, text: str) -> None:
    """Replace what stands between the begin and end markers of ``benchmark``."""
    begin, end = (f"<!-- {word}: benchmarks/{benchmark}.py -->" for word in ("begin", "end"))
    page = path.read_text(encoding="utf-8")
    if begin not in page or end not in page:
        raise SystemExit(f"{path} has no markers {begin} ... {end}")
    before, rest = page.split(begin)
    path.write_text(before + begin + "\n" + text + "\n" + end + rest.split(end)[1], encoding="utf-8")
