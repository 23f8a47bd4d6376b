"""Stand-ins for NVIDIA's libraries, so that `import torch` works where they are not installed.

stand_ins.py TORCH SITE_PACKAGES

TORCH is the folder of an installed torch. Its libtorch_python.so names libraries of CUDA (cuBLAS, cuDNN, ...:
3 GB) that a machine without a GPU loads and never calls. For each of them that is missing this makes a small
shared library with the name, the versions and the symbols that torch's libraries ask for; whoever does call
one of its functions is stopped by a message. SITE_PACKAGES, the packages of the environment that is to import
torch, gets a .pth file that adds torch and loads the stand-ins when Python starts."""

import argparse
import collections
import pathlib
import re
import subprocess

LOADER = """\
import ctypes
import pathlib

for library in sorted((pathlib.Path(__file__).parent / "lib").iterdir()):
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
"""


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed_libraries(library):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-dW", library))


def versions_needed(library):
    """{version: the library it belongs to}"""
    owner, versions = None, {}
    for line in output_of("readelf", "-VW", library).splitlines():
        if file := re.search(r"File: (\S+)", line):
            owner = file[1]
        elif owner and (name := re.search(r"Name: (\S+)  Flags: .* Version:", line)):
            versions[name[1]] = owner
    return versions


def undefined_symbols(library):
    """(symbol, version or "") of what this library takes from others"""
    listing = output_of("nm", "-D", "--undefined-only", "--with-symbol-versions", library)
    for line in listing.splitlines():
        kind, name = line.split()
        if kind == "U":
            symbol, _, version = name.partition("@")
            yield symbol, version.lstrip("@")


def loads(name, folders):
    if any((folder / name).exists() for folder in folders):
        return True
    return re.search(rf"^\s*{re.escape(name)} ", output_of("ldconfig", "-p"), re.MULTILINE) is not None


def missing_libraries(torch):
    """{name of a missing library: {version: [symbols]}}, as torch's libraries ask for them"""
    folders = [torch / "lib", *torch.parent.glob("nvidia/*/lib")]
    libraries = sorted((torch / "lib").glob("libtorch*.so"))
    missing = {}
    for library in libraries:
        for name in needed_libraries(library):
            if re.match(r"lib(cu|nccl|nv)", name) and not loads(name, folders):
                missing.setdefault(name, collections.defaultdict(set))
    for library in libraries:
        owners = versions_needed(library)
        for symbol, version in undefined_symbols(library):
            owner = owners.get(version)
            if owner in missing:
                missing[owner][version].add(symbol)
            elif not version:
                # Without a version it may be in any of them: in the one of the same first name.
                for name, versions in missing.items():
                    if symbol.lower().startswith(re.match(r"lib([a-z]+)", name.lower())[1].removesuffix("lt")):
                        versions[""].add(symbol)
    return missing


def build(name, versions, folder):
    symbols = sorted({symbol for group in versions.values() for symbol in group})
    source = folder / f"{name}.c"
    lines = ["#include <stdio.h>", "#include <stdlib.h>"]
    lines += [
        f'void {symbol}(void) {{ fputs("{symbol}: {name} is a stand-in\\n", stderr); abort(); }}'
        for symbol in symbols
    ]
    source.write_text("\n".join(lines) + "\n")
    library = folder / "lib" / name
    command = ["gcc", "-shared", "-fPIC", "-w", source, "-o", library, f"-Wl,-soname,{name}"]
    named = {version: group for version, group in versions.items() if version}
    if named:
        script = folder / f"{name}.map"
        script.write_text(
            "".join(f"{version} {{ global: {'; '.join(sorted(group))}; }};\n" for version, group in named.items())
        )
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("torch", type=pathlib.Path)
    parser.add_argument("site_packages", type=pathlib.Path)
    arguments = parser.parse_args()

    missing = missing_libraries(arguments.torch)
    lines = []
    if missing:
        folder = arguments.site_packages / "nvidia_stand_ins"
        (folder / "lib").mkdir(parents=True, exist_ok=True)
        for name, versions in missing.items():
            build(name, versions, folder)
        (folder / "__init__.py").write_text(LOADER)
        lines.append("import nvidia_stand_ins")
    lines.append(str(arguments.torch.absolute().parent))
    (arguments.site_packages / "torch_of_libdeq.pth").write_text("\n".join(lines) + "\n")
    print(f"stand-ins for {len(missing)} libraries")


if __name__ == "__main__":
    main()
