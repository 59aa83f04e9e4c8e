"""Programs beside Python's own that tests drive: installed by `make tools`."""

import os
import shutil

import pytest


def program(name: str) -> str:
    """Its path. Without it the test is skipped, and fails on a build machine, where nothing may be left out unseen."""
    found = shutil.which(name)
    if found is None:
        reason = f"no {name}: `make tools` installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found
