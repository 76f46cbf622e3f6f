from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.pipeline.models import Models, scripted_models


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Models]:
    with scripted_models(monkeypatch, str(tmp_path / "config")) as found:
        yield found
