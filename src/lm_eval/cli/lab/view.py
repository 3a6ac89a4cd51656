"""``lm-eval view``: stored runs in a browser, served to this machine or exported as files."""

from __future__ import annotations

import argparse
import sys
import warnings
import webbrowser
from pathlib import Path

from lm_eval.errors import ComparisonError, LmEvalWarning, UsageError
from lm_eval.support.numbers import counted
from lm_eval.support.terminal import print_line, visible
from lm_eval.viewer.app import ViewerServer, open_server
from lm_eval.viewer.catalogue import Catalogue
from lm_eval.viewer.contract import Contract
from lm_eval.viewer.export import export


def view(args: argparse.Namespace) -> int:
    """Serve the runs until interrupted, or write them to files."""
    _check(args)
    catalogue = Catalogue(args.runs)
    if not catalogue.runs:
        raise ComparisonError(_nothing(catalogue))
    for problem in catalogue.problems:
        _warn(f"Left out: {problem.message}")
    if args.export is not None:
        return _export(catalogue, Path(args.export).expanduser())
    return _serve(open_server(Contract(catalogue), args.port), catalogue, opens=args.open)


def _check(args: argparse.Namespace) -> None:
    if args.export is not None and (args.port is not None or args.open):
        raise UsageError(
            "--export writes files and serves nothing: give it without --port and --open."
        )


def _nothing(catalogue: Catalogue) -> str:
    """Why there is nothing to show, and where there are runs."""
    if catalogue.problems:
        return " ".join(problem.message for problem in catalogue.problems[:3])
    paths = ", ".join(repr(str(path)) for path in catalogue.paths)
    return (
        f"{paths} holds no runs: no results_….json, and no samples of a run that is going on."
        f"{catalogue.near or f' Run something with --output_path {catalogue.paths[0]} first.'}"
    )


def _warn(text: str) -> None:
    warnings.warn(text, LmEvalWarning, stacklevel=2)


def _export(catalogue: Catalogue, target: Path) -> int:
    written = export(catalogue, target)
    for note in written.notes:
        _warn(f"Left out: {note}")
    size = f"{written.num_bytes / 1e6:.1f} MB"
    files = counted(written.num_files, "file")
    print_line(f"Written: {visible(str(written.path))} ({files}, {size})")
    return 0


def _serve(server: ViewerServer, catalogue: Catalogue, *, opens: bool) -> int:
    print_line(f"{counted(len(catalogue.runs), 'run')} at {server.address}")
    print_line("Only this machine can open it. Press Ctrl+C to end.")
    sys.stdout.flush()
    if opens and not webbrowser.open(server.address):
        _warn("No browser could be opened: open the address yourself.")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return 0
