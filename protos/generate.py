"""Generates the Python stubs and the OpenAPI document, checks that they are fresh, and runs buf over the schema.

    python protos/generate.py             writes clients/python/tonnage/v1, clients/openapi.json, service/api/comments.json,
                                          service/api/autoscalers/compat
    python protos/generate.py --check     fails where what is committed differs from what would be written
    python protos/generate.py --lint      buf lint
    python protos/generate.py --breaking  buf breaking against the last tag, where there is one

The validation rules stay in the descriptors as options that the validator reads by number, but the stubs do not depend on
buf/validate/validate.proto: a client must not bring its own copy of it into a process where another one may be loaded.
"""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import google.api.annotations_pb2
import grpc_tools
from google.protobuf import descriptor_pb2
from google.protobuf.message import Message
from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parent
ROOT = PROTOS.parent
STUBS = ROOT / "clients" / "python"
OPENAPI = ROOT / "clients" / "openapi.json"
COMMENTS = ROOT / "service" / "api" / "comments.json"  # the stubs carry none
PACKAGE = "tonnage/v1"
COMPAT = "compat"  # other people's contracts: the server's alone, and messages only, since clients bring their own stubs
COMPAT_STUBS = ROOT / "service" / "api" / "autoscalers" / COMPAT
RULES = "buf/validate/validate.proto"
INCLUDES = (
    Path(google.api.annotations_pb2.__file__).parents[2],  # google/api, google/rpc
    Path(grpc_tools.__file__).parent / "_proto",  # google/protobuf
)


def _run_protoc(*arguments: str) -> None:
    if protoc.main(["protoc", *arguments]) != 0:
        raise SystemExit("protoc failed: see above")


def sources(root: Path = PROTOS) -> list[str]:
    """Our own proto files, relative to the root they lie in."""
    return sorted(path.relative_to(root).as_posix() for path in (root / PACKAGE).glob("*.proto"))


def image(target: Path, root: Path = PROTOS) -> Path:
    """Writes the descriptors of all protos and what they import, with comments, and returns where."""
    include = [f"-I{path}" for path in (root, *INCLUDES)]
    _run_protoc(*include, "--include_imports", "--include_source_info", f"--descriptor_set_out={target}", *sources(root))
    return target


def _without_rules_dependency(path: Path) -> None:
    descriptors = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    kept = [file for file in descriptors.file if file.name != RULES]
    for file in kept:
        names = [name for name in file.dependency if name != RULES]
        del file.dependency[:]
        file.dependency.extend(names)
    stripped = descriptor_pb2.FileDescriptorSet(file=kept)
    path.write_bytes(stripped.SerializeToString(deterministic=True))


def generate(target: Path) -> None:
    """Writes the stubs of every proto below ``target``/tonnage/v1."""
    with tempfile.TemporaryDirectory() as folder:
        descriptors = image(Path(folder) / "image.binpb")
        _without_rules_dependency(descriptors)
        source = f"--descriptor_set_in={descriptors}"
        services = [name for name in sources() if name.endswith("_service.proto")]
        plugins = [f"--plugin={name}={_tool(name)}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
        _run_protoc(source, *plugins, f"--python_out={target}", f"--mypy_out=quiet:{target}", *sources())
        _run_protoc(source, *plugins, f"--grpc_python_out={target}", f"--mypy_grpc_out=quiet:{target}", *services)
    (target / PACKAGE / "__init__.py").write_text('"""Generated stubs of tonnage.v1. Do not edit: run make gen."""\n')


def generate_compat(target: Path) -> None:
    """Writes the messages of other people's contracts below ``target``/compat."""
    names = sorted(path.relative_to(PROTOS).as_posix() for path in (PROTOS / COMPAT).glob("*.proto"))
    plugin = f"--plugin=protoc-gen-mypy={_tool('protoc-gen-mypy')}"
    _run_protoc(f"-I{PROTOS}", plugin, f"--python_out={target}", f"--mypy_out=quiet:{target}", *names)
    (target / COMPAT / "__init__.py").write_text('"""Generated messages of protos/compat. Do not edit: run make gen."""\n')


def _comments_of(file: descriptor_pb2.FileDescriptorProto) -> dict[str, str]:
    """Comments by full name: "tonnage.v1.FitNodeRequest.node"; the file's own by its path."""
    found = {}
    for location in file.source_code_info.location:
        text = " ".join(line.strip() for line in location.leading_comments.splitlines()).strip()
        if not text:
            continue
        if list(location.path) == [12]:  # above the syntax line
            found[file.name] = text
        elif name := _name_at(file, list(location.path)):
            found[f"{file.package}.{name}"] = text
    return found


def _name_at(file: descriptor_pb2.FileDescriptorProto, path: list[int]) -> str:
    """The name of what a path in a descriptor leads to; empty for what has none, such as options."""
    names: list[str] = []
    here: Message = file
    while path:
        field = here.DESCRIPTOR.fields_by_number[path[0]]
        if field.message_type is None or not field.is_repeated:
            return ""
        here = getattr(here, field.name)[path[1]]
        if not hasattr(here, "name"):
            return ""
        names.append(here.name)
        path = path[2:]
    return ".".join(names)


def comments() -> str:
    """The comments of our protos, as the committed JSON file has them."""
    with tempfile.TemporaryDirectory() as folder:
        files = descriptor_pb2.FileDescriptorSet.FromString(image(Path(folder) / "image.binpb").read_bytes())
    found: dict[str, str] = {}
    for file in files.file:
        if file.name in sources():
            found |= _comments_of(file)
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def openapi() -> str:
    """The OpenAPI document, as the service serves it: from the stubs, in a process that has not loaded others."""
    paths = os.pathsep.join((str(ROOT), str(STUBS)))
    command = [sys.executable, "-m", "service.api.openapi"]
    completed = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise SystemExit(f"no OpenAPI document:\n{completed.stderr}")
    return completed.stdout


def _difference(fresh: Path, committed: Path) -> list[str]:
    names = {path.name for path in fresh.iterdir()} | {path.name for path in committed.glob("*.py*")}
    names -= {"__pycache__"}
    _, different, missing = filecmp.cmpfiles(fresh, committed, sorted(names), shallow=False)
    return different + missing


def check() -> None:
    """Fails where something generated is missing, stale or left over."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        generate_compat(Path(folder))
        stale = _difference(Path(folder) / PACKAGE, STUBS / PACKAGE) + _difference(Path(folder) / COMPAT, COMPAT_STUBS)
    for path, text in ((COMMENTS, comments), (OPENAPI, openapi)):
        if not path.is_file() or path.read_text(encoding="utf-8") != text():
            stale.append(path.name)
    if stale:
        raise SystemExit(f"stale, run make gen: {', '.join(stale)}")


def _tool(name: str) -> str:
    """A development tool, of this interpreter's environment first: it need not be on the PATH."""
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if path is None:
        raise SystemExit(f"{name} is not installed: it comes with the development requirements")
    return path


def _buf(*arguments: str) -> None:
    completed = subprocess.run([_tool("buf"), *arguments], check=False)
    if completed.returncode != 0:
        raise SystemExit(f"buf {arguments[0]} failed: see above")


def lint() -> None:
    """Runs buf lint over the schema."""
    with tempfile.TemporaryDirectory() as folder:
        _buf("lint", str(image(Path(folder) / "image.binpb")), "--config", str(PROTOS / "buf.yaml"))


def breaking() -> None:
    """Runs buf breaking against the last tag; says so where there is none yet."""
    git = ["git", "-C", str(PROTOS.parent)]
    described = subprocess.run([*git, "describe", "--tags", "--abbrev=0"], capture_output=True, text=True, check=False)
    tag = described.stdout.strip()
    if described.returncode != 0 or not tag:
        print("no tag yet: nothing to break")
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run([*git, "archive", tag, "protos"], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        before = image(Path(folder) / "before.binpb", Path(folder) / "protos")
        now = image(Path(folder) / "now.binpb")
        _buf("breaking", str(now), "--against", str(before), "--config", str(PROTOS / "buf.yaml"))


def main() -> None:
    """Reads the command line and does the one thing asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = {"check": check, "lint": lint, "breaking": breaking}
    group = parser.add_mutually_exclusive_group()
    for name, action in actions.items():
        group.add_argument(f"--{name}", dest="action", action="store_const", const=action)
    chosen = parser.parse_args().action
    if chosen is None:
        with tempfile.TemporaryDirectory() as folder:
            generate(Path(folder))
            generate_compat(Path(folder))
            for made, kept in ((PACKAGE, STUBS / PACKAGE), (COMPAT, COMPAT_STUBS)):
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(Path(folder) / made, kept)
        COMMENTS.write_text(comments(), encoding="utf-8")
        OPENAPI.write_text(openapi(), encoding="utf-8")
    else:
        chosen()


if __name__ == "__main__":
    main()
