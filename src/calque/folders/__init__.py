"""Folders that are written atomically and that detect damage.

write_folder(path, kind="model", format=1, fill=lambda folder: (folder / "a.txt").write_text("a"))
verify_folder(path, kind="model", formats=[1])
"""

from calque.folders.manifest import MANIFEST, Manifest, sha256_of, survey_folder, verify_folder
from calque.folders.stale import is_running, remove_stale
from calque.folders.writing import failure, remove_folder, sync, write_folder

__all__ = [
    "MANIFEST",
    "Manifest",
    "failure",
    "is_running",
    "remove_folder",
    "remove_stale",
    "sha256_of",
    "survey_folder",
    "sync",
    "verify_folder",
    "write_folder",
]
