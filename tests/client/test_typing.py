"""The client as a type checker sees it: what is right passes, what is wrong does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
from typing import assert_type
from tonnage import AsyncClient, Client, DenseModel, NotFound
from tonnage.v1.capacity_service_pb2 import EstimateDecodeResponse, FitNodeResponse
from tonnage.v1.catalogue_service_pb2 import Accelerator, GetModelResponse, ListModelsResponse, Model

client = Client("localhost:50051", timeout=2.5, metadata=[("authorization", "Bearer x")])
"""
RIGHT = (
    HEAD
    + """
answer = client.estimate_decode(
    model="llama-3.1-70b", accelerator="h100-sxm", tensor=8, batch_size=64, context_tokens=4096
)
assert_type(answer, EstimateDecodeResponse)
assert_type(answer.bound.tokens_per_second, float)
assert_type(client.estimate_decode(model={"num_hidden_layers": 32}, accelerator="h100-sxm"), EstimateDecodeResponse)
assert_type(client.fit_node(model=DenseModel(num_parameters=7e9), node="dgx-h100", context_tokens=1), FitNodeResponse)
assert_type(client.with_options(timeout=60).get_model("llama-3.1-70b"), GetModelResponse)
assert_type([entry for entry in client.list_accelerators(page_size=10)], list[Accelerator])
assert_type([page for page in client.list_models().pages], list[ListModelsResponse])
try:
    client.get_accelerator("h100-smx")
except NotFound as error:
    assert_type(error.nearest, tuple[str, ...])


async def ask() -> None:
    async with AsyncClient() as client:
        assert_type(await client.estimate_decode(model="m", accelerator="a"), EstimateDecodeResponse)
        assert_type([entry async for entry in client.list_models()], list[Model])
        assert_type([page async for page in client.list_models().pages], list[ListModelsResponse])
"""
)
WRONG = {
    "client.estimate_decode(model='m', acelerator='a')": 'Unexpected keyword argument "acelerator"',
    "client.estimate_decode(model='m', tensor='8')": 'Argument "tensor"',
    "client.estimate_decode(model=7)": 'Argument "model"',
    "client.get_model(7)": "Argument 1",
    "client.estimate_decode(model='m').bounds": 'has no attribute "bounds"',
    "client.list_models().nothing": 'has no attribute "nothing"',
    "Client(timeout='soon')": 'Argument "timeout"',
}


def checked(path: Path, source: str) -> str:
    """What ``mypy --strict`` says of a caller's file that knows nothing of our configuration."""
    path.write_text(source)
    client = Path(__file__).resolve().parents[2] / "clients" / "python"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={path.parent}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"MYPYPATH": str(client)})
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for both tests, so that the second finds the first one's cache."""
    return tmp_path_factory.mktemp("caller")


def test_a_callers_file_passes(folder: Path) -> None:
    said = checked(folder / "right.py", RIGHT)

    errors = [line for line in said.splitlines() if "right.py" in line]
    assert [] == errors, said


def test_mistakes_are_found(folder: Path) -> None:
    said = checked(folder / "wrong.py", HEAD + "\n".join(WRONG))

    first = HEAD.count("\n") + 1
    found = {int(line.split(":")[1]): line for line in said.splitlines() if "wrong.py" in line and ": error:" in line}
    assert set(range(first, first + len(WRONG))) == set(found), said
    for position, expected in enumerate(WRONG.values()):
        assert expected in found[first + position]
