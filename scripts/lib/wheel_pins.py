"""Whether a wheel's metadata say what is in it: wheel_pins.py WHEEL."""

import email
import pathlib
import re
import sys
import zipfile


def faults(wheel):
    """One sentence for each."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        said = email.message_from_bytes(archive.read(metadata))
        check = archive.read("deq/_torch_version.py").decode()
    required = [re.sub(r"\s", "", text) for text in said.get_all("Requires-Dist", [])]
    release = re.search(r'^BUILT_WITH = "([\d.]+)"$', check, re.MULTILINE)[1]
    project = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text()
    _, version, python, _, _ = pathlib.Path(wheel).stem.split("-")
    if said["Version"] != version or f'version = "{version}"' not in project:
        yield f"its version is {said['Version']} inside, {version} by its name, and pyproject.toml has another"
    if f"torch=={release}.*" not in required:
        yield f"import deq wants torch {release}, and the metadata want {[text for text in required if 'torch' in text]}"
    if said["Requires-Python"] != ">=3.10":
        yield f"it is for Python {said['Requires-Python']}, must be for >=3.10"
    if not any(re.fullmatch(rf"deq/_core\.{python.replace('cp', 'cpython-')}-.*\.so", name) for name in names):
        yield f"it is for {python} by its name, and its core is for another Python"
    for name in ("deq/py.typed", "deq/_core.pyi", "deq/bin/deq", "deq/lib/libdeq.so"):
        if not any(each.startswith(name) for each in names):
            yield f"it has no {name}"


def main():
    found = list(faults(sys.argv[1]))
    for fault in found:
        print(f"wheel_pins: {fault}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
