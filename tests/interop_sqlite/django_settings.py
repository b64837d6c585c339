"""Django's test settings, with its two databases in files."""

from __future__ import annotations

import os
from pathlib import Path

_PLACE = Path(os.environ["INTEROP_SQLITE_PLACE"])


def _database(name: str) -> dict[str, object]:
    path = str(_PLACE / f"{name}.sqlite3")
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "TEST": {"NAME": path}}


DATABASES = {"default": _database("default"), "other": _database("other")}
SECRET_KEY = "interop"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
