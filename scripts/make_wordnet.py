"""Make the package's table of WordNet 3.0 nouns from Debian's ``wordnet-base``.

    apt-get install wordnet-base && python scripts/make_wordnet.py

The table holds facts only, one column per line of text, synsets in order of their offsets:
  1. offsets, each as the difference to the one before
  2. hypernyms (@ and @i, in pointer order), each as the difference of row numbers, "|" between them
  3. lemmas in synset order as WordNet spells them, "|" between them
  4. for each lemma, which of its senses this synset is (1 = the first, most frequent)
Columns 1 to 4 put a blank between synsets. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import lzma
from pathlib import Path

RESOURCES = Path(__file__).resolve().parents[1] / "src" / "fedgrain" / "taxonomy" / "resources"


def read_synsets(path: Path) -> list[tuple[int, list[str], list[int]]]:
    """Return offset, lemmas and hypernym offsets of every noun synset in ``data.noun``."""
    synsets = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue  # the licence notice
        fields = line.split(" | ")[0].split()
        word_count = int(fields[3], 16)
        lemmas = fields[4 : 4 + 2 * word_count : 2]
        pointers = fields[5 + 2 * word_count :]
        hypernyms = [
            int(pointers[i + 1]) for i in range(0, len(pointers), 4) if pointers[i] in ("@", "@i")
        ]
        synsets.append((int(fields[0]), lemmas, hypernyms))
    return synsets


def read_sense_order(path: Path) -> dict[tuple[str, int], int]:
    """Return (lemma, offset) -> sense number from ``index.noun``."""
    order = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue
        fields = line.split()
        senses = int(fields[2])
        for number, offset in enumerate(fields[-senses:], start=1):
            order[fields[0], int(offset)] = number
    return order


def table(
    synsets: list[tuple[int, list[str], list[int]]], sense: dict[tuple[str, int], int]
) -> str:
    """Lay the four columns out as text."""
    row = {offset: number for number, (offset, _, _) in enumerate(synsets)}
    previous = 0
    columns: tuple[list[str], ...] = ([], [], [], [])
    for number, (offset, lemmas, hypernyms) in enumerate(synsets):
        columns[0].append(str(offset - previous))
        columns[1].append("|".join(str(number - row[h]) for h in hypernyms))
        columns[2].append("|".join(lemmas))
        columns[3].append("|".join(str(sense[lemma.lower(), offset]) for lemma in lemmas))
        previous = offset
    return "\n".join(" ".join(column) for column in columns) + "\n"


def main() -> None:
    """Write the table and the licence notice that must go with it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    source = parser.parse_args().wordnet
    synsets = read_synsets(source / "data.noun")
    text = table(synsets, read_sense_order(source / "index.noun"))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0}]
    packed = lzma.compress(text.encode(), format=lzma.FORMAT_XZ, filters=filters)
    (RESOURCES / "wordnet-nouns.xz").write_bytes(packed)
    notice = [
        line[line.index(" ", 2) + 1 :].rstrip() if line.strip() else ""
        for line in (source / "data.noun").read_text(encoding="utf-8").splitlines()[:29]
    ]
    (RESOURCES / "wordnet-LICENSE.txt").write_text("\n".join(notice) + "\n", encoding="utf-8")
    print(f"{len(synsets)} synsets, {len(text)} characters, {len(packed)} bytes packed")


if __name__ == "__main__":
    main()
