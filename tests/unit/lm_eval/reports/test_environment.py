"""What the results file says about the machine, and what it must not say."""

import getpass
import json
import platform
import subprocess
from pathlib import Path

import pytest

from lm_eval.reports.environment import environment, git_hash, pretty_environment


def test_it_names_versions():
    facts = environment()
    assert facts["python"] == platform.python_version()
    assert "rich" in facts["packages"]
    assert f"rich=={facts['packages']['rich']}" in pretty_environment(facts)


def test_it_tells_nothing_about_the_user(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-seen")
    text = json.dumps(environment()) + pretty_environment()
    assert str(Path.home()) not in text
    assert "sk-not" not in text
    assert platform.node() not in text
    user = getpass.getuser()
    assert user == "root" or user not in text


def git(folder, *arguments):
    named = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(folder), *named, *arguments], check=True)


def test_git_hash_of_a_repository_and_outside_one(tmp_path):
    assert git_hash(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert git_hash(tmp_path) is None
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    assert len(git_hash(tmp_path)) == 40


@pytest.mark.parametrize("error", [FileNotFoundError(), subprocess.TimeoutExpired("git", 2)])
def test_git_hash_without_git_or_without_an_answer(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    assert git_hash() is None


def test_git_hash_of_a_missing_folder(tmp_path):
    assert git_hash(tmp_path / "none") is None
