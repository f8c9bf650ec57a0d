"""Names the platform of a wheel by the glibc that its libraries ask for, and packs it well: finish.py WHEEL FOLDER

Prints the path of the wheel that it leaves in FOLDER.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

VERSION = re.compile(r"GLIBC_2\.(\d+)")


def newest_glibc(folder: pathlib.Path) -> int:
    found = [17]
    for path in folder.rglob("*"):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            text = subprocess.run(["objdump", "-T", str(path)], capture_output=True, text=True, check=True).stdout
            found += [int(n) for n in VERSION.findall(text)]
    return max(found)


def main() -> None:
    wheel, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        with zipfile.ZipFile(wheel) as z:
            z.extractall(folder)
        tag = f"manylinux_2_{newest_glibc(folder)}_{platform.machine()}"
        name, version, python, abi, _ = wheel.stem.split("-")
        [info] = folder.glob("*.dist-info")
        text = (info / "WHEEL").read_text(encoding="utf-8")
        (info / "WHEEL").write_text(re.sub(r"^Tag: .*$", f"Tag: {python}-{abi}-{tag}", text, flags=re.M), encoding="utf-8")
        rows, record = [], info / "RECORD"
        made = out / f"{name}-{version}-{python}-{abi}-{tag}.whl"
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
            for path in sorted(p for p in folder.rglob("*") if p.is_file() and p != record):
                entry, data = path.relative_to(folder).as_posix(), path.read_bytes()
                sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                rows.append(f"{entry},sha256={sha},{len(data)}")
                # Of a fixed time: equal content, equal bytes.
                member = zipfile.ZipInfo(entry, (2020, 1, 1, 0, 0, 0))
                executable = "/bin/" in entry or ".so" in path.name
                member.external_attr = (0o100755 if executable else 0o100644) << 16
                member.compress_type = zipfile.ZIP_DEFLATED
                z.writestr(member, data, compresslevel=9)
            rows.append(f"{record.relative_to(folder).as_posix()},,")
            z.writestr(zipfile.ZipInfo(record.relative_to(folder).as_posix(), (2020, 1, 1, 0, 0, 0)), "\n".join(rows) + "\n")
    print(made)


if __name__ == "__main__":
    main()
