"""A user's script without ``if __name__ == '__main__':`` gets a sentence, not an endless wait."""

import subprocess
import sys

SCRIPT = """
from pathlib import Path
from fedgrain.cores import process_map
from fedgrain.images.cache import only_one

with only_one(Path({place!r})), process_map(2) as mapper:
    print(list(mapper(abs, [-1])))
"""


def test_a_lock_is_not_waited_for_by_the_script_that_holds_it(tmp_path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT.format(place=str(tmp_path / "entry")))
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1 and "BrokenProcessPool" in ended.stderr
    assert "call fedgrain below `if __name__ == '__main__':`" in ended.stderr
