"""A folder of small files as one archive, whose bytes depend only on theirs.

usage: pack.py pack ARCHIVE FOLDER
       pack.py unpack ARCHIVE FOLDER
"""
import io
import pathlib
import sys
import tarfile


def pack(archive, folder):
    contents = sorted((file.read_bytes() for file in folder.iterdir()), key=lambda content: (len(content), content))
    with tarfile.open(archive, "w:xz", preset=9) as target:
        for number, content in enumerate(contents):
            entry = tarfile.TarInfo(f"{number:04}")
            entry.size = len(content)
            target.addfile(entry, io.BytesIO(content))
    print(f"{archive.name}: {len(contents)} inputs, {archive.stat().st_size} bytes")


def unpack(archive, folder):
    with tarfile.open(archive, "r:xz") as source:
        for entry in source:
            (folder / pathlib.PurePath(entry.name).name).write_bytes(source.extractfile(entry).read())


if __name__ == "__main__":
    action, *paths = sys.argv[1:]
    {"pack": pack, "unpack": unpack}[action](*map(pathlib.Path, paths))
