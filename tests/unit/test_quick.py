"""``scripts/quick.py``: which tests are beside a changed file."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT

LAYOUT = "tests/unit/test_layout.py tests/unit/test_mirror.py"
ROWS = {
    "src/lm_eval/stats/ranks.py": f"tests/unit/lm_eval/stats/test_ranks.py {LAYOUT}",
    "src/lm_eval/formats/builtin/cot.yaml": f"tests/contract tests/golden {LAYOUT}",
    "tests/golden/regenerate.py": "tests/golden",
    "tests/unit/test_layout.py": "tests/unit/test_layout.py",
    "tests/integration/test_cli.py": "",
    "README.md": "",
}
CALL = "import sys, quick; [print(*quick.tests_beside([name])) for name in sys.argv[1:]]"


def test_tests_beside_a_file() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALL, *ROWS],
        cwd=ROOT / "scripts",
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict(zip(ROWS, done.stdout.split("\n"), strict=False)) == ROWS
