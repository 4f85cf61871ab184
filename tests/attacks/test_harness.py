"""The harness counts what happens, and the killer kills: else a table of zeros would say nothing.

The attacks themselves take minutes: ``make attack``.
"""

import json
import random
from pathlib import Path

import pytest

from warm_processes import WarmProcesses

TESTS = Path(__file__).parents[1]

COUNTING = """
import json, os, sys
from pathlib import Path
from attacks import harness
from attacks.harness import Case, Told, alone, called
from attacks.workers import run_cases, table

harness.CASE_SECONDS = 0.5
ONE = "fedgrain: error: a.csv, line 3: the path is empty; write one"
def says(code, err): return lambda scratch: Told(code, "", err).judged()
def hangs(scratch):
    while True: pass
cases = [
    Case("done", says(0, "")),
    Case("one sentence", says(2, f"fedgrain: warning: odd\\n{ONE}\\n")),
    Case("two lines", says(2, f"{ONE}\\nINFO: forged\\n")),
    Case("escapes", says(2, f"{ONE}\\x1b[2J\\n")),
    Case("long", says(2, ONE + "x" * 9000)),
    Case("no sentence", says(2, "")),
    Case("exit code", says(3, "")),
    Case("traceback", says(1, "Traceback (most recent call last):\\nKeyError: 'x'")),
    Case("raises", lambda scratch: called(lambda: {}["x"]).judged()),
    Case("killed", lambda scratch: alone(lambda: os.kill(os.getpid(), 9)).judged()),
    Case("ends its worker", lambda scratch: os._exit(0) if False else os.kill(os.getpid(), 9)),
    Case("hangs", hangs),
    Case("hangs alone", lambda scratch: alone(lambda: hangs(scratch), 0.2)),
]
tally = run_cases("some", cases, Path(sys.argv[1]), 60, seed=1, jobs=2)
print(json.dumps([tally.tries, tally.survived, tally.wrong, tally.tracebacks, tally.notes]))
print(table([tally]))
"""

KILLING = """
import sys
from pathlib import Path
from attacks.harness import alone
from attacks.kills import Killer
from fedgrain.files import append_line, write_text

root = Path(sys.argv[1])
def write(place):
    write_text(place / "whole", "new\\n" * 100)
    append_line(place / "lines", "second")
def prepare(number):
    place = root / str(number); place.mkdir()
    (place / "whole").write_text("old"); (place / "lines").write_text("first\\n")
    return place
def counted():
    killer = Killer(root / "count"); killer.install(); write(root / "count")
    (root / "events").write_text("\\n".join(list(killer.events)))
prepare("count"); alone(counted)
events = (root / "events").read_text().splitlines()
codes = set()
for number, event in enumerate(events):
    for torn in (False, True):
        place = prepare(f"{number}-{torn}")
        def act():
            Killer(place, number, torn).install(); write(place)
        if torn and not event.startswith("fsync"): continue
        codes.add(alone(act).code)
        whole = (place / "whole").read_text()
        assert whole in ("old", "new\\n" * 100), (event, whole)
        assert (place / "lines").read_text().startswith("first\\n")
print(sorted(codes), sorted({event.split()[0] for event in events}))
"""


def run(warm: WarmProcesses, script: str, *arguments: object) -> str:
    done = warm.python("-c", script, *arguments, PYTHONPATH=str(TESTS))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_kind_of_end_is_counted_as_what_it_is(warm: WarmProcesses, tmp_path: Path) -> None:
    first, *table = run(warm, COUNTING, tmp_path).splitlines()
    tries, survived, wrong, tracebacks, notes = json.loads(first)
    assert (tries, survived, wrong, tracebacks) == (13, 2, 7, 4)
    kinds = {note.split(": ")[1]: note.split(": ")[0] for note in notes}
    assert kinds == {
        **dict.fromkeys(("two lines", "escapes", "long", "no sentence", "exit code", "hangs",
                         "hangs alone"), "wrong"),
        **dict.fromkeys(("traceback", "raises", "killed", "ends its worker"), "tracebacks"),
    }  # fmt: skip
    assert table[0].split() == [
        "|",
        "attack",
        "|",
        "tries",
        "|",
        "survived",
        "|",
        "wrong",
        "|",
        "tracebacks",
        "|",
    ]
    assert table[2].split() == ["|", "some", "|", "13", "|", "2", "|", "7", "|", "4", "|"]


def test_the_killer_kills_at_every_event_and_files_stay_whole(
    warm: WarmProcesses, tmp_path: Path
) -> None:
    told = run(warm, KILLING, tmp_path)
    assert told.startswith("[-9] ")
    assert {"open", "os.rename", "fsync"} <= set(
        told[5:].strip("[]\n").replace("'", "").split(", ")
    )


@pytest.mark.parametrize("kind", ["bytes", "lines", "values", "json"])
def test_the_seed_decides_a_mutation(kind: str) -> None:
    from attacks.mutations import mutated

    good = b'{"a": [1, 2, {"b": "c"}],\n"d": 4}'
    one, two, other = (mutated(good, kind, random.Random(f"{s} x")) for s in (1, 1, 2))
    assert one == two != other


@pytest.mark.parametrize("damage", ["flip", "cut", "emptied", "removed", "zeros"])
def test_every_damage_changes_a_file_and_keeps_its_times(tmp_path: Path, damage: str) -> None:
    from attacks.flips import spoil

    file = tmp_path / "file"
    file.write_bytes(bytes(200))
    before = file.stat().st_mtime_ns
    spoil(file, damage, random.Random("seed"))
    assert not file.exists() if damage == "removed" else file.read_bytes() != bytes(200)
    assert damage == "removed" or file.stat().st_mtime_ns == before
