"""Collects what goes into a wheel beside Python's files: bundle.py PREFIX OUT PATCHELF

OUT/_lib has libweft and what it and its parts need that is not on every system, OUT/_lib/weft the parts that are opened when
they are asked for, OUT/bin the command. Each finds the others by paths relative to itself.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

# What every system with glibc has (PEP 600).
EVERYWHERE = re.compile(r"^(lib(c|m|dl|rt|pthread|util|resolv|gcc_s|stdc\+\+|z)\.so\.|ld-linux)")
# Parts that would take the wheel beyond 32 MiB, with what they bring along: decoders of images (Pillow has them) and protobuf's
# text form (the package onnx has it). What asks for one is told that it is not there.
LEFT_OUT = {"libweftpart_image.so", "libweftpart_textproto.so"}
NEEDED = re.compile(r"^\s*(\S+) => (\S+)", re.M)


def needs(path: pathlib.Path) -> dict[str, pathlib.Path]:
    text = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout
    if "not found" in text:
        raise SystemExit(f"bundle: {path} needs what is not here:\n{text}")
    return {name: pathlib.Path(place) for name, place in NEEDED.findall(text) if not EVERYWHERE.match(name)}


def main() -> None:
    prefix, out, patchelf = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    [library] = [p for p in prefix.rglob("libweft.so.*") if p.is_file() and not p.is_symlink()]
    soname = subprocess.run([patchelf, "--print-soname", str(library)], capture_output=True, text=True, check=True).stdout.strip()
    parts = sorted((library.parent / "weft").glob("*.so"))
    parts = [p for p in parts if p.name not in LEFT_OUT]
    command = prefix / "bin/weft"
    places = {library: out / "_lib" / soname, command: out / "bin/weft"}
    places.update({p: out / "_lib/weft" / p.name for p in parts})
    others: dict[str, pathlib.Path] = {}
    for source in places:
        others.update(needs(source))
    others.pop(soname, None)
    places.update({source: out / "_lib" / name for name, source in others.items()})
    for source, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source.resolve(), place)
        place.chmod(0o755)
        inside = {"bin": "$ORIGIN/../_lib", "weft": "$ORIGIN/.."}.get(place.parent.name, "$ORIGIN")
        subprocess.run([patchelf, "--set-rpath", inside, str(place)], check=True)
    notices = out / "licenses"
    notices.mkdir(parents=True)
    for name, source in sorted(others.items()):
        # Debian keeps the terms of each library beside it.
        owner = subprocess.run(["dpkg-query", "-S", str(source), str(source.resolve())], capture_output=True, text=True, check=False)
        for package in {line.split(":")[0] for line in owner.stdout.splitlines() if ":" in line}:
            terms = pathlib.Path("/usr/share/doc") / package / "copyright"
            if terms.is_file():
                shutil.copyfile(terms, notices / f"{package}.txt")


if __name__ == "__main__":
    main()
